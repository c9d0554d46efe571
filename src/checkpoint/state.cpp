// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>

#include "sft/checkpoint/state.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"

namespace sft::checkpoint {

namespace {

constexpr std::int64_t staging_bytes = 1 << 20;  ///< of pinned memory between storage and the device

std::vector<std::int64_t> shape_of(const parallel::Parameter& parameter) {
  if (parameter.is_vector()) return {parameter.rows};
  return {parameter.rows, parameter.columns};
}

std::string describe(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + ")";
}

/// The parts of a rectangle, row-major, that fit into `capacity` elements: whole rows, or columns of one row. Calls
/// visit(part, element of the rank shard where it begins).
template <class Visit>
void for_each_part(const parallel::LogicalRectangle& whole, std::int64_t capacity, const Visit& visit) {
  const std::int64_t num_columns = std::min(whole.num_columns, capacity);
  const std::int64_t num_rows = std::max<std::int64_t>(capacity / whole.num_columns, 1);
  for (std::int64_t row = 0; row < whole.num_rows; row += num_rows) {
    for (std::int64_t column = 0; column < whole.num_columns; column += num_columns) {
      const io::Rectangle part = {whole.row_begin + row, std::min(num_rows, whole.num_rows - row),
                                  whole.column_begin + column, std::min(num_columns, whole.num_columns - column)};
      visit(part, whole.shard_offset + row * whole.num_columns + column);
    }
  }
}

std::string tensor_name(const Entry& entry, const parallel::Piece& piece) {
  return entry.name + "/" + piece.parameter->name;
}

/// All parts of all pieces of an entry. Calls visit(piece, part, first of its elements in the rank shard).
template <class Visit>
void for_each_part(const Entry& entry, bool only_owned, const Visit& visit) {
  const auto capacity = staging_bytes / static_cast<std::int64_t>(size_of(entry.dtype()));
  for (const parallel::Piece& piece : entry.shard_map->pieces()) {
    if (only_owned && !piece.parameter->is_owner) continue;
    for (const parallel::LogicalRectangle& rectangle : parallel::ShardMap::rectangles(piece)) {
      for_each_part(rectangle, capacity,
                    [&](const io::Rectangle& part, std::int64_t begin) { visit(piece, part, begin); });
    }
  }
}

/// Zeros between the pieces. A file has them from its beginning, and nobody writes there.
void clear_padding(const Entry& entry, device::Device& device, device::Stream& stream) {
  if (entry.in_file != nullptr) return;
  for (const parallel::ShardRange& gap : entry.shard_map->padding()) {
    const Tensor zeros = entry.tensor.rows(gap.begin, gap.count);
    device.fill_zero(zeros.data, zeros.size_bytes(), stream);
  }
}

}  // namespace

State::State(std::vector<Entry> entries, std::function<void()> refresh)
    : entries_(std::move(entries)), refresh_(std::move(refresh)) {
  SFT_ENSURE(!entries_.empty(), "a state has entries");
  SFT_ENSURE(refresh_ != nullptr, "a state knows how to refresh what follows from it");
  std::set<std::string> names;
  for (const Entry& entry : entries_) {
    SFT_ENSURE(names.insert(entry.name).second, "entries have different names");
    const bool is_rank_shard =
        entry.in_file != nullptr
            ? entry.in_file->num_elements() == entry.shard_map->rank_shard_elements()
            : entry.tensor.ndim == 1 && entry.tensor.num_elements() == entry.shard_map->rank_shard_elements();
    SFT_ENSURE(is_rank_shard, "an entry's tensor is a rank shard");
  }
}

Tensor State::tensor(const std::string& name) const {
  const auto found = std::ranges::find(entries_, name, &Entry::name);
  SFT_ENSURE(found != entries_.end() && found->in_file == nullptr,
             "the state has the entry that is asked for in memory");
  return found->tensor;
}

void check_entries(const io::TensorSource& source, const std::vector<Entry>& entries, const std::string& what_to_do) {
  const std::string problem = source.path() + " does not fit the model";
  std::map<std::string, std::map<std::string, std::vector<std::int64_t>>> shapes;  // by entry, then by name
  for (io::TensorInfo& tensor : source.tensors()) {
    shapes[io::entry_of(tensor.name)][tensor.name] = std::move(tensor.shape);
  }
  for (const Entry& entry : entries) {
    auto& held = shapes[entry.name];
    for (const parallel::Unit& unit : entry.shard_map->units()) {
      for (const parallel::Parameter& parameter : unit.parameters) {
        const std::string name = entry.name + "/" + parameter.name;
        const auto found = held.find(name);
        if (found == held.end()) throw_data_error(problem, "it has no " + name, what_to_do);
        if (found->second != shape_of(parameter)) {
          throw_data_error(
              problem,
              name + " has shape " + describe(found->second) + ", the model's has " + describe(shape_of(parameter)),
              what_to_do);
        }
        held.erase(found);
      }
    }
    if (!held.empty()) {
      throw_data_error(problem, "the model has no " + held.begin()->first.substr(entry.name.size() + 1), what_to_do);
    }
  }
}

void load_entries(const io::TensorSource& source, const State& state, device::Device& device, device::Stream& stream,
                  SeenWeights& seen) {
  const device::Device::Block staging = device.allocate(staging_bytes, device::Space::pinned);
  std::vector<float> numbers;
  for (const Entry& entry : state.entries()) {
    clear_padding(entry, device, stream);
    const bool is_model = entry.name == "model", is_adapter = entry.name == "adapter";
    for_each_part(entry, false, [&](const parallel::Piece& piece, const io::Rectangle& part, std::int64_t begin) {
      const std::string name = tensor_name(entry, piece);
      numbers.resize(static_cast<std::size_t>(part.num_elements()));
      source.read(name, part, DType::float32, numbers.data());
      if (is_model) seen.add(source.path(), name, *piece.parameter, part, numbers);
      if (is_adapter) require_finite(source.path(), name, part, numbers);
      const Tensor values(staging.get(), entry.dtype(), {part.num_elements()});
      io::convert(numbers, values.dtype, values.data);
      if (entry.in_file != nullptr) return entry.in_file->write(begin, values);
      device.copy(entry.tensor.rows(begin, part.num_elements()).data, values.data, values.size_bytes(), stream);
      stream.synchronize();
    });
  }
  state.refresh();
}

void load_entries(const io::TensorSource& source, const State& state, device::Device& device, device::Stream& stream) {
  SeenWeights seen;
  load_entries(source, state, device, stream, seen);
}

void save_entries(const State& state, io::TensorSink& sink, device::Device& device, device::Stream& stream) {
  const device::Device::Block staging = device.allocate(staging_bytes, device::Space::pinned);
  for (const Entry& entry : state.entries()) {
    for_each_part(entry, true, [&](const parallel::Piece& piece, const io::Rectangle& part, std::int64_t begin) {
      const Tensor values(staging.get(), entry.dtype(), {part.num_elements()});
      if (entry.in_file != nullptr) {
        entry.in_file->read(begin, values);
      } else {
        device.copy(values.data, entry.tensor.rows(begin, part.num_elements()).data, values.size_bytes(), stream);
        stream.synchronize();
      }
      sink.write(tensor_name(entry, piece), part, values.dtype, values.data);
    });
  }
}

}  // namespace sft::checkpoint
