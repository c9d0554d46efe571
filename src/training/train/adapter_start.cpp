// SPDX-License-Identifier: Apache-2.0
#include "adapter_start.hpp"

#include <algorithm>
#include <cstring>
#include <map>
#include <string_view>

#include "sft/core/activity.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/io/tensor_source.hpp"
#include "sft/model/linear/adapter_names.hpp"

namespace sft::train {

namespace {

constexpr std::int64_t part_elements = 1 << 18;  ///< of a shard that are on the host at a time

/// A rectangle of a tensor; its numbers, float32, follow it.
struct Header {
  std::int64_t row_begin, num_rows, column_begin, num_columns;
};

template <class Number>
void append(std::string& text, const Number* numbers, std::size_t count) {
  const std::size_t begin = text.size();
  text.resize(begin + count * sizeof(Number));
  std::memcpy(text.data() + begin, numbers, count * sizeof(Number));
}

/// Puts what owned() gave in its place in the whole tensor.
void place(std::string_view text, std::int64_t width, std::vector<float>& whole) {
  while (!text.empty()) {
    Header header{};
    std::memcpy(&header, text.data(), sizeof header);
    text.remove_prefix(sizeof header);
    for (std::int64_t row = 0; row < header.num_rows; ++row) {
      float* const to = whole.data() + (header.row_begin + row) * width + header.column_begin;
      const std::size_t num_bytes = header.num_columns * sizeof(float);
      std::memcpy(to, text.data(), num_bytes);
      text.remove_prefix(num_bytes);
    }
  }
}

/// As numbers of the dtype are, again as float32.
void round_to(DType dtype, std::vector<float>& values) {
  if (dtype == DType::float32) return;
  std::vector<std::byte> rounded(values.size() * size_of(dtype));
  io::convert(values, dtype, rounded.data());
  std::vector<float> scratch;
  const float* const as_float = io::as_float32(rounded.data(), dtype, values.size(), scratch);
  std::copy_n(as_float, values.size(), values.begin());
}

std::string bytes_of(const model::WeightFactors& factors) {
  std::string text;
  append(text, factors.a.data(), factors.a.size());
  append(text, factors.b.data(), factors.b.size());
  return text;
}

model::WeightFactors factors_of(const std::string& bytes, const model::WeightShape& shape, std::int64_t rank) {
  model::WeightFactors factors{.a = std::vector<float>(rank * shape.columns),
                               .b = std::vector<float>(shape.rows * rank)};
  const std::size_t a_bytes = factors.a.size() * sizeof(float), b_bytes = factors.b.size() * sizeof(float);
  SFT_ENSURE(bytes.size() == a_bytes + b_bytes, "factors have the sizes of their weight");
  std::memcpy(factors.a.data(), bytes.data(), a_bytes);
  std::memcpy(factors.b.data(), bytes.data() + a_bytes, b_bytes);
  return factors;
}

model::WeightShape weight_shape_of(const parallel::Parameter& weight) { return {weight.rows, weight.columns}; }

}  // namespace

std::vector<AdapterStart::Adapted> AdapterStart::adapted() const {
  std::vector<Adapted> result;
  if (!config_.lora.use_peft || !config_.lora.init_lora_weights.splits_weights()) return result;
  struct Found {
    const parallel::UnitStorage* storage;
    const parallel::Parameter* parameter;
  };
  std::map<std::string, Found> parameters;
  for (const parallel::UnitStorage& storage : plan_.parts) {
    for (const parallel::Unit& unit : storage.shard_map().units()) {
      for (const parallel::Parameter& parameter : unit.parameters) parameters[parameter.name] = {&storage, &parameter};
    }
  }
  for (const rank::TrainedPart& trained : plan_.trained) {
    for (const parallel::Unit& unit : trained.shard_map().units()) {
      for (const parallel::Parameter& parameter : unit.parameters) {
        const auto names = model::adapter_of_a(parameter.name);
        if (!names) continue;
        const Found& weight = parameters.at(names->weight);
        result.push_back({&trained, weight.storage, &parameter, parameters.at(names->b).parameter, weight.parameter,
                          config_.lora.size_of(names->module)});
      }
    }
  }
  return result;
}

template <class Change>
void AdapterStart::change(const Shard& shard, const parallel::Parameter& parameter, const Change& change) {
  std::vector<float> scratch(part_elements);
  std::vector<std::byte> stored(part_elements * sizeof(float));
  for (const parallel::Piece& piece : shard.shard_map->pieces()) {
    if (piece.parameter != &parameter) continue;
    for (std::int64_t done = 0; done < piece.count; done += part_elements) {
      const std::int64_t count = std::min(piece.count - done, part_elements);
      const Tensor there = shard.values.rows(piece.shard_offset + done, count);
      device_.copy(stored.data(), there.data, there.size_bytes(), stream_);
      stream_.synchronize();
      std::vector<float> numbers;
      const float* const read = io::as_float32(stored.data(), there.dtype, count, numbers);
      std::copy_n(read, count, scratch.begin());
      const std::span<float> part(scratch.data(), count);
      change(piece.begin + done, part);
      io::convert(part, there.dtype, stored.data());
      device_.copy(there.data, stored.data(), there.size_bytes(), stream_);
      stream_.synchronize();
    }
  }
}

std::string AdapterStart::owned(const Shard& shard, const parallel::Parameter& parameter) {
  std::string text;
  if (!parameter.is_owner) return text;
  std::vector<std::byte> stored;
  std::vector<float> numbers;
  for (const parallel::Piece& piece : shard.shard_map->pieces()) {
    if (piece.parameter != &parameter) continue;
    const Tensor there = shard.values.rows(piece.shard_offset, piece.count);
    stored.resize(there.size_bytes());
    device_.copy(stored.data(), there.data, there.size_bytes(), stream_);
    stream_.synchronize();
    const float* const read = io::as_float32(stored.data(), there.dtype, piece.count, numbers);
    for (const parallel::LogicalRectangle& r : parallel::ShardMap::rectangles(piece)) {
      const Header header{r.row_begin, r.num_rows, r.column_begin, r.num_columns};
      append(text, &header, 1);
      append(text, read + (r.shard_offset - piece.shard_offset), r.num_rows * r.num_columns);
    }
  }
  return text;
}

void AdapterStart::put(const Shard& shard, const parallel::Parameter& parameter, std::span<const float> whole,
                       float factor) {
  change(shard, parameter, [&](std::int64_t begin, std::span<float> part) {
    for (float& number : part) {
      const std::int64_t row = parameter.row_begin + begin / parameter.local_columns,
                         column = parameter.column_begin + begin % parameter.local_columns;
      number = factor * whole[row * parameter.columns + column];
      ++begin;
    }
  });
}

void AdapterStart::subtract(const Adapted& adapter, const model::WeightFactors& factors) {
  const parallel::Parameter& weight = *adapter.weight;
  const auto scale = static_cast<float>(adapter.size.scale);
  const std::int64_t rank = adapter.size.rank;
  std::vector<float> sums;
  change({&adapter.weights->shard_map(), adapter.weights->parameters()}, weight,
         [&](std::int64_t begin, std::span<float> part) {
           while (!part.empty()) {  // a row, or a part of one
             const std::int64_t row = weight.row_begin + begin / weight.local_columns,
                                local_column = begin % weight.local_columns,
                                count = std::min(weight.local_columns - local_column, std::ssize(part));
             sums.assign(count, 0.0F);
             for (std::int64_t r = 0; r < rank; ++r) {
               const float of_row = scale * factors.b[row * rank + r];
               const float* const a = factors.a.data() + r * weight.columns + weight.column_begin + local_column;
               for (std::int64_t i = 0; i < count; ++i) sums[i] += of_row * a[i];
             }
             for (std::int64_t i = 0; i < count; ++i) part[i] -= sums[i];
             part = part.subspan(count);
             begin += count;
           }
         });
}

std::vector<float> AdapterStart::collect(const Adapted& adapter, int to) {
  std::vector<float> whole;
  if (world_.rank() == to) whole.resize(adapter.weight->elements());
  const Shard shard{&adapter.weights->shard_map(), adapter.weights->parameters()};
  const std::string own = owned(shard, *adapter.weight);
  for (int from = 0; from < world_.size(); ++from) {
    const std::string text = world_.deliver(own, from, to);
    if (world_.rank() == to) place(text, adapter.weight->columns, whole);
  }
  return whole;
}

void AdapterStart::begin() {
  const std::vector<Adapted> all = adapted();
  const std::int64_t num_ranks = world_.size();
  for (std::int64_t first = 0; first < std::ssize(all); first += num_ranks) {
    // Each rank works on one weight at a time.
    const Activity splitting(ActivityKind::works, "the part of the weights that adapters begin with");
    const std::int64_t count = std::min(std::ssize(all) - first, num_ranks);
    std::vector<float> own;
    for (int i = 0; i < count; ++i) {
      std::vector<float> whole = collect(all[first + i], i);
      if (world_.rank() == i) own = std::move(whole);
    }
    std::string computed;
    world_.agree([&] {
      if (world_.rank() >= count) return;
      const Adapted& adapter = all[first + world_.rank()];
      model::WeightFactors factors =
          model::weight_factors(config_.lora.init_lora_weights, own, weight_shape_of(*adapter.weight), adapter.size,
                                config_.model.init_seed + first + world_.rank());
      round_to(adapter.trained->start.dtype, factors.a);
      round_to(adapter.trained->start.dtype, factors.b);
      computed = bytes_of(factors);
    });
    for (int i = 0; i < count; ++i) {
      const Adapted& adapter = all[first + i];
      std::string bytes = world_.rank() == i ? computed : "";
      world_.broadcast(bytes, i);
      const model::WeightFactors factors = factors_of(bytes, weight_shape_of(*adapter.weight), adapter.size.rank);
      const parallel::ShardMap* const shard_map = &adapter.trained->shard_map();
      transfer::OffloadedShard* const in_file = adapter.trained->optimizer->master_in_file();
      const Tensor parameters =
          in_file != nullptr ? adapter.trained->storage.gradients() : adapter.trained->storage.parameters();
      if (in_file != nullptr) in_file->read(0, parameters);
      put({shard_map, parameters}, *adapter.a, factors.a, 1.0F);
      put({shard_map, parameters}, *adapter.b, factors.b, 1.0F);
      if (in_file != nullptr) in_file->write(0, parameters);
      put({shard_map, adapter.trained->start}, *adapter.a, factors.a, 1.0F);
      put({shard_map, adapter.trained->start}, *adapter.b, factors.b, -1.0F);
      subtract(adapter, factors);
      note_progress();
    }
  }
}

void AdapterStart::go_on() {
  for (const Adapted& adapter : adapted()) {
    const Shard shard{&adapter.trained->shard_map(), adapter.trained->start};
    const std::int64_t rank = adapter.size.rank;
    model::WeightFactors factors{.a = std::vector<float>(rank * adapter.weight->columns),
                                 .b = std::vector<float>(adapter.weight->rows * rank)};
    for (const std::string& text : world_.all_gather(owned(shard, *adapter.a))) {
      place(text, adapter.weight->columns, factors.a);
    }
    for (const std::string& text : world_.all_gather(owned(shard, *adapter.b))) place(text, rank, factors.b);
    for (float& number : factors.b) number = -number;  // it is kept as its negative
    subtract(adapter, factors);
  }
}

}  // namespace sft::train
