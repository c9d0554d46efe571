#include "sft/checkpoint/inspect.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <limits>
#include <numeric>

#include "folder.hpp"
#include "header.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/core/error.hpp"
#include "shard.hpp"

namespace sft::checkpoint {

namespace {

constexpr std::int64_t block_elements = 1 << 20;

/// checkpoint.h5, once all its shards are there: HDF5 would read a missing one as NaN without a word.
io::Hdf5File open_with_shards(const std::string& folder) {
  io::Hdf5File index = open_index(folder);
  for (const Shard& shard : read_shards(index)) check_presence(folder, shard);
  return index;
}

/// checkpoint.h5 of a folder that list_tensors() has checked: its checksum is not formed again for every tensor.
io::Hdf5File open_checked(const std::string& folder) { return io::Hdf5File::open(index_path(folder)); }

std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

io::Rectangle rows_of(const std::vector<std::int64_t>& shape, std::int64_t begin, std::int64_t count) {
  return {.row_begin = begin, .num_rows = count, .column_begin = 0, .num_columns = shape.size() == 2 ? shape[1] : 1};
}

/// The tensor cut into whole rows, each block of bounded size unless a row is longer.
std::vector<io::Rectangle> blocks_of(const TensorInfo& tensor) {
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

void read_block(const io::Hdf5File& index, const TensorInfo& tensor, const io::Rectangle& block,
                std::vector<float>& values) {
  values.resize(static_cast<std::size_t>(block.num_rows * block.num_columns));
  index.read("/" + tensor.dataset, io::Number::float32, block, values.data());
}

}  // namespace

std::int64_t TensorInfo::num_elements() const { return product(shape); }

std::vector<TensorInfo> list_tensors(const std::string& folder) {
  const io::Hdf5File index = open_with_shards(folder);
  std::vector<TensorInfo> tensors;
  for (const std::string group : group_names) {
    std::vector<std::string> names = index.list_datasets("/" + group);
    std::sort(names.begin(), names.end(), [](const std::string& left, const std::string& right) {
      return ::strverscmp(left.c_str(), right.c_str()) < 0;  // layers.2 before layers.10
    });
    for (const std::string& name : names) {
      const std::string dataset = group + "/" + name;
      tensors.push_back({dataset, index.dataset_shape("/" + dataset)});
    }
  }
  return tensors;
}

Statistics measure(const std::string& folder, const TensorInfo& tensor) {
  const io::Hdf5File index = open_checked(folder);
  std::vector<float> values;
  Statistics statistics{.min = std::numeric_limits<double>::infinity(),
                        .max = -std::numeric_limits<double>::infinity()};
  double sum_of_squares = 0.0;
  for (const io::Rectangle& block : blocks_of(tensor)) {
    read_block(index, tensor, block, values);
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

Difference compare(const std::string& folder, const std::string& other, const TensorInfo& tensor) {
  const io::Hdf5File left = open_checked(folder);
  const io::Hdf5File right = open_checked(other);
  if (right.dataset_shape("/" + tensor.dataset) != tensor.shape) {
    throw_data_error("cannot compare " + tensor.dataset + " of " + folder + " and " + other, "its shapes differ",
                     "compare checkpoints of one model");
  }
  std::vector<float> left_values;
  std::vector<float> right_values;
  Difference difference;
  double sum_of_squares = 0.0;
  double left_sum_of_squares = 0.0;
  for (const io::Rectangle& block : blocks_of(tensor)) {
    read_block(left, tensor, block, left_values);
    read_block(right, tensor, block, right_values);
    for (std::size_t i = 0; i < left_values.size(); ++i) {
      const double distance = std::abs(static_cast<double>(left_values[i]) - right_values[i]);
      if (!(distance <= difference.max_abs) && !std::isnan(difference.max_abs)) difference.max_abs = distance;
      sum_of_squares += distance * distance;
      left_sum_of_squares += static_cast<double>(left_values[i]) * left_values[i];
    }
  }
  if (difference.max_abs != 0.0) difference.relative = std::sqrt(sum_of_squares / left_sum_of_squares);
  return difference;
}

std::vector<ShardInfo> list_shards(const std::string& folder) {
  std::vector<ShardInfo> shards;
  for (const Shard& shard : read_shards(open_index(folder))) shards.push_back({shard.name, shard.size_bytes});
  return shards;
}

void verify(const std::string& folder) {
  const io::Hdf5File index = open_with_shards(folder);
  for (const Shard& shard : read_shards(index)) check_contents(folder, shard);
  std::vector<float> values;
  for (const TensorInfo& tensor : list_tensors(folder)) {
    for (const io::Rectangle& block : blocks_of(tensor)) read_block(index, tensor, block, values);
  }
}

std::vector<float> read_tensor(const std::string& folder, const std::string& dataset) {
  const io::Hdf5File index = open_with_shards(folder);
  const std::vector<std::int64_t> shape = index.dataset_shape("/" + dataset);
  std::vector<float> values(static_cast<std::size_t>(product(shape)));
  index.read("/" + dataset, io::Number::float32, rows_of(shape, 0, shape[0]), values.data());
  return values;
}

}  // namespace sft::checkpoint
