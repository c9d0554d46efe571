// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "entry_memory.hpp"
#include "pieces.hpp"
#include "sft/checkpoint/state.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"

namespace sft::checkpoint {

namespace {

std::string describe(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + ")";
}

std::string tensor_name(const Entry& entry, const parallel::Parameter& parameter) {
  return entry.name + "/" + parameter.name;
}

}  // namespace

State::State(std::vector<Entry> entries, std::function<void()> refresh)
    : entries_(std::move(entries)), refresh_(std::move(refresh)) {
  SFT_ENSURE(!entries_.empty(), "a state has entries");
  SFT_ENSURE(refresh_ != nullptr, "a state knows how to refresh what follows from it");
  std::set<std::tuple<std::string, const parallel::ShardMap*, const parallel::StoredLayout*>> names;
  for (const Entry& entry : entries_) {
    SFT_ENSURE(names.emplace(entry.name, entry.shard_map, entry.layout).second,
               "entries of one name have different maps or layouts");
    SFT_ENSURE(entry.in_file != nullptr || entry.tensor.ndim == 1, "an entry lies in a flat tensor");
    const std::int64_t size = entry.in_file != nullptr ? entry.in_file->num_elements() : entry.tensor.num_elements();
    const std::int64_t expected = entry.layout->num_elements(*entry.shard_map);
    SFT_ENSURE(size == (entry.four_bits != nullptr ? entry.four_bits->part().in_memory(expected) : expected),
               "an entry's memory is as its layout says");
  }
}

std::vector<Entry> State::first_entries() const {
  std::vector<Entry> first;
  for (const Entry& entry : entries_) {
    const std::string& name = entries_.front().name;
    if (entry.name == name || entry.name == name + start_suffix) first.push_back(entry);
  }
  return first;
}

Tensor State::tensor(const std::string& name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  SFT_ENSURE(found != entries_.end() && found->in_file == nullptr,
             "the state has the entry that is asked for in memory");
  return found->tensor;
}

void check_entries(const io::TensorSource& source, const std::vector<Entry>& entries, const std::string& what_to_do) {
  const std::string problem = source.path() + " does not fit the model";
  std::map<std::string, std::map<std::string, io::TensorInfo>> tensors;  // by entry, then by name
  for (io::TensorInfo& tensor : source.tensors()) tensors[io::entry_of(tensor.name)][tensor.name] = std::move(tensor);
  for (const Entry& entry : entries) {
    auto& held = tensors[entry.name];
    for (const parallel::StoredTensor& wanted : entry.layout->tensors(*entry.shard_map)) {
      const std::string name = tensor_name(entry, *wanted.parameter);
      const auto found = held.find(name);
      if (found == held.end()) throw_data_error(problem, "it has no " + name, what_to_do);
      const io::TensorInfo& tensor = found->second;
      if (tensor.shape != wanted.shape) {
        throw_data_error(problem,
                         name + " has shape " + describe(tensor.shape) + ", the model's has " + describe(wanted.shape),
                         what_to_do);
      }
      const bool takes_codes = entry.dtype() == DType::uint8 && entry.four_bits == nullptr;
      if ((tensor.dtype == DType::uint8) != takes_codes) {
        throw_data_error(problem,
                         name + (tensor.dtype == DType::uint8 ? " holds codes where numbers are wanted"
                                                              : " holds numbers where codes are wanted"),
                         what_to_do);
      }
      held.erase(found);
    }
  }
  for (const Entry& entry : entries) {
    const auto& left = tensors[entry.name];
    if (left.empty()) continue;
    throw_data_error(problem, "the model has no " + left.begin()->first.substr(entry.name.size() + 1), what_to_do);
  }
}

void load_entries(const io::TensorSource& source, const State& state, device::Device& device, device::Stream& stream,
                  LoadedWeights& seen) {
  const device::Device::Block staging = device.allocate(2 * piece_bytes, device::Space::pinned);
  EntryMemory memory(device, stream, seen);
  for (const Entry& entry : state.entries()) {
    memory.clear_padding(entry);
    const DType dtype = entry.dtype() == DType::uint8 ? DType::uint8 : DType::float32;
    for_each_piece(entry, false, [&](const parallel::StoredPart& part, const io::Rectangle& piece, std::int64_t begin) {
      source.read(tensor_name(entry, *part.parameter), piece, dtype, staging.get());
      memory.put(source.path(), entry, *part.parameter, piece, begin, dtype, staging.get());
    });
  }
  state.refresh();
}

void load_entries(const io::TensorSource& source, const State& state, device::Device& device, device::Stream& stream) {
  LoadedWeights seen;
  load_entries(source, state, device, stream, seen);
}

void save_entries(const State& state, io::TensorSink& sink, device::Device& device, device::Stream& stream) {
  const device::Device::Block staging = device.allocate(piece_bytes, device::Space::pinned);
  for (const Entry& entry : state.entries()) {
    for_each_piece(entry, true, [&](const parallel::StoredPart& part, const io::Rectangle& piece, std::int64_t begin) {
      const Tensor values(staging.get(), entry.dtype(), {piece.num_elements()});
      if (entry.in_file != nullptr) {
        entry.in_file->read(begin, values);
      } else {
        device.copy(values.data, entry.tensor.rows(begin, piece.num_elements()).data, values.size_bytes(), stream);
        stream.synchronize();
      }
      sink.write(tensor_name(entry, *part.parameter), piece, values.dtype, values.data);
    });
  }
}

}  // namespace sft::checkpoint
