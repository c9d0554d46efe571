// SPDX-License-Identifier: Apache-2.0
#include "sft/checkpoint/inspect.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <limits>

#include "header.hpp"
#include "index_tensors.hpp"
#include "region_reader.hpp"
#include "sft/core/error.hpp"
#include "shard_file.hpp"

namespace sft::checkpoint {

namespace {

constexpr std::int64_t block_elements = 1 << 20;

io::Rectangle rows_of(const std::vector<std::int64_t>& shape, std::int64_t begin, std::int64_t count) {
  return {.row_begin = begin, .num_rows = count, .column_begin = 0, .num_columns = shape.size() == 2 ? shape[1] : 1};
}

/// The tensor cut into whole rows, each block of bounded size unless a row is longer.
std::vector<io::Rectangle> blocks_of(const io::TensorInfo& tensor) {
  const std::int64_t num_rows = tensor.shape[0];
  const std::int64_t row_elements =
      std::max<std::int64_t>(tensor.num_elements() / std::max<std::int64_t>(num_rows, 1), 1);
  const std::int64_t block_rows = std::max<std::int64_t>(block_elements / row_elements, 1);
  std::vector<io::Rectangle> blocks;
  for (std::int64_t begin = 0; begin < num_rows; begin += block_rows) {
    blocks.push_back(rows_of(tensor.shape, begin, std::min(block_rows, num_rows - begin)));
  }
  return blocks;
}

void read_block(const io::TensorSource& source, const io::TensorInfo& tensor, const io::Rectangle& block,
                std::vector<float>& values) {
  values.resize(block.num_elements());
  source.read(tensor.name, block, DType::float32, values.data());
}

}  // namespace

Statistics measure(const io::TensorSource& source, const io::TensorInfo& tensor) {
  std::vector<float> values;
  Statistics statistics{.min = std::numeric_limits<double>::infinity(),
                        .max = -std::numeric_limits<double>::infinity()};
  double sum_of_squares = 0.0;
  for (const io::Rectangle& block : blocks_of(tensor)) {
    read_block(source, tensor, block, values);
    for (const double value : values) {
      sum_of_squares += value * value;
      if (std::isnan(value)) {
        ++statistics.num_nan;
        continue;
      }
      statistics.min = std::min(statistics.min, value);
      statistics.max = std::max(statistics.max, value);
    }
  }
  statistics.norm = std::sqrt(sum_of_squares);
  if (statistics.num_nan == tensor.num_elements()) statistics.min = statistics.max = 0.0;
  return statistics;
}

Difference compare(const io::TensorSource& source, const io::TensorInfo& tensor, const io::TensorSource& other,
                   const io::TensorInfo& other_tensor) {
  if (other_tensor.shape != tensor.shape) {
    throw_data_error(fmt::format("cannot compare {} of {} and {}", tensor.name, source.path(), other.path()),
                     "its shapes differ", "compare checkpoints of one model");
  }
  std::vector<float> left_values;
  std::vector<float> right_values;
  Difference difference;
  double sum_of_squares = 0.0;
  double left_sum_of_squares = 0.0;
  for (const io::Rectangle& block : blocks_of(tensor)) {
    read_block(source, tensor, block, left_values);
    read_block(other, other_tensor, block, right_values);
    for (std::size_t i = 0; i < left_values.size(); ++i) {
      left_sum_of_squares += static_cast<double>(left_values[i]) * left_values[i];
      const bool are_nan = std::isnan(left_values[i]) && std::isnan(right_values[i]);
      if (are_nan || left_values[i] == right_values[i]) continue;
      ++difference.num_different;
      const double distance = std::abs(static_cast<double>(left_values[i]) - right_values[i]);
      if (!(distance <= difference.max_abs) && !std::isnan(difference.max_abs)) difference.max_abs = distance;
      sum_of_squares += distance * distance;
    }
  }
  difference.norm = std::sqrt(sum_of_squares);
  difference.before_norm = std::sqrt(left_sum_of_squares);
  return difference;
}

std::vector<ShardFileInfo> list_shard_files(const std::string& folder) {
  std::vector<ShardFileInfo> files;
  for (const ShardFile& file : read_shard_files(open_index(folder))) files.push_back({file.name, file.size_bytes});
  return files;
}

void verify(const std::string& folder) {
  io::Hdf5File index = open_index(folder);
  const std::vector<ShardFile> files = read_shard_files(index);
  if (read_format_version(index) > 1) {
    const FileMap map = read_file_map(index);
    RegionReader regions(folder, map);
    const auto writers = writers_of_files(map);
    for (std::size_t file = 0; file < writers.size(); ++file) {
      regions.check_file(file);
      for (const int writer : writers[file]) {
        for (std::size_t entry = 0; entry < map.entries.size(); ++entry) regions.check_region(writer, entry);
      }
    }
    return;
  }
  const IndexSource source(std::move(index));
  for (const ShardFile& file : files) check_contents(folder, file);
  std::vector<float> values;
  for (const io::TensorInfo& tensor : source.tensors()) {
    for (const io::Rectangle& block : blocks_of(tensor)) read_block(source, tensor, block, values);
  }
}

}  // namespace sft::checkpoint
