#include "sft/checkpoint/inspect.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "header.hpp"
#include "sft/checkpoint/checkpoint.hpp"
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

std::int64_t product(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

io::Rectangle rows_of(const std::vector<std::int64_t>& shape, std::int64_t begin, std::int64_t count) {
  return {.row_begin = begin, .num_rows = count, .column_begin = 0, .num_columns = shape.size() == 2 ? shape[1] : 1};
}

}  // namespace

std::int64_t TensorInfo::num_elements() const { return product(shape); }

std::vector<TensorInfo> list_tensors(const std::string& folder) {
  const io::Hdf5File index = open_with_shards(folder);
  std::vector<TensorInfo> tensors;
  for (const std::string group : group_names) {
    for (const std::string& name : index.list_datasets("/" + group)) {
      const std::string dataset = group + "/" + name;
      tensors.push_back({dataset, index.dataset_shape("/" + dataset)});
    }
  }
  return tensors;
}

Statistics measure(const std::string& folder, const TensorInfo& tensor) {
  const io::Hdf5File index = open_index(folder);
  const std::int64_t num_columns = tensor.shape.size() == 2 ? tensor.shape[1] : 1;
  const std::int64_t block_rows = std::max<std::int64_t>(block_elements / std::max<std::int64_t>(num_columns, 1), 1);
  std::vector<float> values;
  Statistics statistics{.min = std::numeric_limits<double>::infinity(),
                        .max = -std::numeric_limits<double>::infinity()};
  double sum_of_squares = 0.0;
  for (std::int64_t begin = 0; begin < tensor.shape[0]; begin += block_rows) {
    const std::int64_t num_rows = std::min(block_rows, tensor.shape[0] - begin);
    values.resize(static_cast<std::size_t>(num_rows * num_columns));
    index.read("/" + tensor.dataset, io::Number::float32, rows_of(tensor.shape, begin, num_rows), values.data());
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

std::vector<ShardInfo> list_shards(const std::string& folder) {
  std::vector<ShardInfo> shards;
  for (const Shard& shard : read_shards(open_index(folder))) shards.push_back({shard.name, shard.size_bytes});
  return shards;
}

void verify(const std::string& folder) {
  for (const Shard& shard : read_shards(open_index(folder))) check_contents(folder, shard);
}

std::vector<float> read_tensor(const std::string& folder, const std::string& dataset) {
  const io::Hdf5File index = open_with_shards(folder);
  const std::vector<std::int64_t> shape = index.dataset_shape("/" + dataset);
  std::vector<float> values(static_cast<std::size_t>(product(shape)));
  index.read("/" + dataset, io::Number::float32, rows_of(shape, 0, shape[0]), values.data());
  return values;
}

}  // namespace sft::checkpoint
