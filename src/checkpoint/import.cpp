// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <vector>

#include "folder.hpp"
#include "header.hpp"
#include "index_tensors.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/checkpoint/seen_weights.hpp"
#include "sft/core/ensure.hpp"
#include "sft/io/files.hpp"
#include "sft/io/seal.hpp"
#include "shard_file.hpp"

namespace sft::checkpoint {

namespace {

constexpr std::int64_t part_elements = 1 << 18;  ///< of a tensor that are in memory at a time

/// The tensors of the entry "model" as parameters of one unit.
parallel::Unit unit_of(const io::TensorSource& source) {
  parallel::Unit unit;
  unit.name = "model";
  for (const io::TensorInfo& tensor : source.tensors()) {
    if (io::entry_of(tensor.name) != "model") continue;
    SFT_ENSURE(tensor.shape.size() == 1 || tensor.shape.size() == 2, "tensors of a model have one or two dims");
    parallel::Parameter parameter;
    parameter.name = tensor.name.substr(tensor.name.find('/') + 1);
    parameter.rows = tensor.shape[0];
    parameter.columns = tensor.shape.size() > 1 ? tensor.shape[1] : 0;
    unit.parameters.push_back(std::move(parameter));
  }
  return unit;
}

/// Whole rows, or parts of one where it is long. Calls visit(rectangle).
template <class Visit>
void for_each_part(const parallel::Parameter& parameter, const Visit& visit) {
  const std::int64_t width = parameter.is_vector() ? 1 : parameter.columns;
  const std::int64_t num_columns = std::min(width, part_elements);
  const std::int64_t num_rows = std::max<std::int64_t>(part_elements / std::max<std::int64_t>(width, 1), 1);
  for (std::int64_t row = 0; row < parameter.rows; row += num_rows) {
    for (std::int64_t column = 0; column < width; column += num_columns) {
      visit(io::Rectangle{.row_begin = row,
                          .num_rows = std::min(num_rows, parameter.rows - row),
                          .column_begin = column,
                          .num_columns = std::min(num_columns, width - column)});
    }
  }
}

/// Writes the files of the checkpoint into its temporary folder, which is there.
void write_files(const std::string& temporary, const config::Config& config, const io::TensorSource& source) {
  // 1. One shard file, as one rank would write it. The moments are never written: HDF5 reads them as zeros, and they
  //    take no room.
  const mesh::Place place;
  const parallel::ShardMap shard_map({unit_of(source)}, place);
  const Tensor nowhere(nullptr, DType::float32, {shard_map.rank_shard_elements()});
  const std::vector<Entry> entries{
      {"model", &shard_map, nowhere}, {"exp_avg", &shard_map, nowhere}, {"exp_avg_sq", &shard_map, nowhere}};
  ShardFileSink sink(temporary, shard_file_name(0), entries);
  sink.leave_zero("exp_avg");
  sink.leave_zero("exp_avg_sq");
  std::vector<float> values;
  for (const parallel::Parameter& parameter : shard_map.unit(0).parameters) {
    for_each_part(parameter, [&](const io::Rectangle& part) {
      values.resize(part.num_elements());
      source.read("model/" + parameter.name, part, DType::float32, values.data());
      require_finite(source.path(), "model/" + parameter.name, part, values);
      sink.write("model/" + parameter.name, part, DType::float32, values.data());
    });
  }
  const ShardFile written = sink.finish();

  // 2. The whole tensors over it, and the name that says complete.
  Position position;
  position.lineage = new_lineage();
  const std::string index_file = index_path(temporary);
  io::Hdf5File index = io::Hdf5File::create(index_file, io::seal_bytes);
  static_cast<void>(write_attributes(index, config, /*tokenizer=*/"", place.layout().describe(), position, {written}));
  index.close();
  write_index_tensors(index_file, entries);
  io::seal(index_file);
  io::sync_path(index_file);
}

}  // namespace

void import_weights(const std::string& folder, const config::Config& config, const io::TensorSource& source) {
  make_temporary_folder(folder);
  try {
    write_files(temporary_path(folder), config, source);
  } catch (...) {
    discard_folder(folder);
    throw;
  }
  commit_folder(folder);
}

}  // namespace sft::checkpoint
