#include <algorithm>
#include <set>

#include "header.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/core/error.hpp"
#include "shard.hpp"

namespace sft::checkpoint {

namespace {

std::string describe(const std::vector<std::int64_t>& shape) {
  std::string text = "(";
  for (std::size_t i = 0; i < shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(shape[i]);
  return text + ")";
}

/// Refuses a checkpoint whose tensors are not those of the model.
void check_tensors(const io::Hdf5File& index, const parallel::ShardMap& shard_map) {
  const std::string what_to_do = "use the [model] section that the checkpoint was written with";
  for (const std::string group : group_names) {
    const std::vector<std::string> listed = index.list_datasets("/" + group);
    std::set<std::string> extra(listed.begin(), listed.end());
    for (const parallel::Unit& unit : shard_map.units()) {
      for (const parallel::Parameter& parameter : unit.parameters) {
        const std::string dataset = "/" + group + "/" + parameter.name;
        if (extra.erase(parameter.name) == 0) {
          throw_data_error(index.path() + " does not fit the model", "it has no " + dataset, what_to_do);
        }
        std::vector<std::int64_t> shape = {parameter.rows};
        if (!parameter.is_vector()) shape.push_back(parameter.columns);
        const std::vector<std::int64_t> found = index.dataset_shape(dataset);
        if (found != shape) {
          throw_data_error(index.path() + " does not fit the model",
                           dataset + " has shape " + describe(found) + ", the model's has " + describe(shape),
                           what_to_do);
        }
      }
    }
    if (!extra.empty()) {
      throw_data_error(index.path() + " does not fit the model", "the model has no " + *extra.begin(), what_to_do);
    }
  }
}

/// Reads one rectangle into `destination` on the device, as many rows (or columns of one row) at a time as fit.
void read_rectangle(const io::Hdf5File& index, const std::string& dataset, const io::Rectangle& whole,
                    float* destination, const Staging& staging, device::Device& device, device::Stream& stream) {
  const std::int64_t capacity = Staging::capacity_elements();
  const std::int64_t num_columns = std::min(whole.num_columns, capacity);
  const std::int64_t num_rows = std::max<std::int64_t>(capacity / whole.num_columns, 1);
  for (std::int64_t row = 0; row < whole.num_rows; row += num_rows) {
    for (std::int64_t column = 0; column < whole.num_columns; column += num_columns) {
      const io::Rectangle part = {whole.row_begin + row, std::min(num_rows, whole.num_rows - row),
                                  whole.column_begin + column, std::min(num_columns, whole.num_columns - column)};
      index.read(dataset, io::Number::float32, part, staging.data());
      const auto bytes = static_cast<std::size_t>(part.num_rows * part.num_columns) * sizeof(float);
      device.copy(destination + row * whole.num_columns + column, staging.data(), bytes, stream);
      stream.synchronize();
    }
  }
}

/// Fills the rank shard, padding with zeros.
void read_state(const io::Hdf5File& index, const parallel::ShardMap& shard_map, const State& state,
                device::Device& device, device::Stream& stream) {
  const Staging staging(device);
  const std::vector<Tensor> tensors = tensors_of(state);
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    for (const parallel::ShardRange& gap : shard_map.padding()) {
      const Tensor zeros = tensors[i].rows(gap.begin, gap.count);
      device.fill_zero(zeros.data, zeros.size_bytes(), stream);
    }
    for (const parallel::Piece& piece : shard_map.pieces()) {
      const std::string dataset = std::string("/") + group_names[i] + "/" + piece.parameter->name;
      for (const parallel::LogicalRectangle& part : parallel::ShardMap::rectangles(piece)) {
        read_rectangle(index, dataset, {part.row_begin, part.num_rows, part.column_begin, part.num_columns},
                       tensors[i].as<float>() + part.shard_offset, staging, device, stream);
      }
    }
  }
}

}  // namespace

Position load(const std::string& folder, const comm::Group& world, const parallel::ShardMap& shard_map,
              const State& state, device::Device& device, device::Stream& stream) {
  // 1. The right tensors, and every shard as it was written: the ranks share the reading of the shards.
  world.agree([&] {
    const io::Hdf5File index = open_index(folder);
    if (world.rank() == 0) check_tensors(index, shard_map);
    const std::vector<Shard> shards = read_shards(index);
    const auto step = static_cast<std::size_t>(world.size());
    for (auto i = static_cast<std::size_t>(world.rank()); i < shards.size(); i += step) {
      check_contents(folder, shards[i]);
    }
  });

  // 2. The pieces of this rank.
  Position position;
  world.agree([&] {
    const io::Hdf5File index = open_index(folder);
    position = read_position(index);
    read_state(index, shard_map, state, device, stream);
  });
  return position;
}

}  // namespace sft::checkpoint
