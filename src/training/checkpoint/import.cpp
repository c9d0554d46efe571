// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <algorithm>
#include <filesystem>
#include <vector>

#include "file_map.hpp"
#include "folder.hpp"
#include "header.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/checkpoint/loaded_weights.hpp"
#include "sft/core/ensure.hpp"
#include "sft/io/hash.hpp"
#include "sft/io/raw_file.hpp"
#include "sft/parallel/stored_layout.hpp"
#include "shard_layout.hpp"

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
  // 1. One shard file, as one rank would write it. The moments are never written: they read as zeros, and take no room.
  const std::vector<parallel::Unit> units{unit_of(source)};
  FileMap map;
  map.cuts.push_back({AxisSet{}, units});
  map.ranks.push_back({.file = 0, .regions = {}});
  std::vector<EntryType> types;
  std::int64_t size = 0;
  for (const parallel::Parameter& parameter : units.front().parameters) size += parameter.elements();
  for (const char* name : {"model", "exp_avg", "exp_avg_sq"}) {
    types.push_back({name, DType::float32});
    map.entries.push_back(
        {.name = name, .dtype = DType::float32, .cut = 0, .tensors = {}, .is_as_parameters = true, .parts = {}});
    for (const parallel::Parameter& parameter : units.front().parameters) {
      map.entries.back().tensors.push_back(
          {fmt::format("{}/{}", name, parameter.name), parallel::shape_of(parameter), DType::float32});
    }
  }
  const LaidOutFile made = lay_out(temporary, shard_file_name(new_shard_prefix(/*step=*/0), 0), types,
                                   std::vector<std::int64_t>(types.size(), size));
  map.files.push_back(made.file);
  for (const std::uint64_t begin : made.begins) {
    map.ranks.front().regions.push_back({.begin = begin, .num_elements = size, .hash = zero_hash});
  }

  // 2. The weights, in the order of their file, which is that of the tensors.
  io::RawFile file = io::RawFile::extend((std::filesystem::path(temporary) / made.file.name).string());
  io::ContentHash hash;
  std::uint64_t at = made.begins.front();
  std::vector<float> values;
  for (const parallel::Parameter& parameter : units.front().parameters) {
    for_each_part(parameter, [&](const io::Rectangle& part) {
      values.resize(part.num_elements());
      source.read("model/" + parameter.name, part, DType::float32, values.data());
      require_finite(source.path(), "model/" + parameter.name, part, values);
      const std::size_t num_bytes = values.size() * sizeof(float);
      hash.add(values.data(), num_bytes);
      file.write(at, num_bytes, values.data());
      at += num_bytes;
    });
  }
  file.sync();
  map.ranks.front().regions.front().hash = hash.text();

  // 3. The map, and whole tensors for other tools.
  Position position;
  position.lineage = new_lineage();
  add_writer(position, map.layout.describe(), /*num_hosts=*/1, /*batch_rows=*/0);
  write_map(temporary, config, /*tokenizer=*/"", position, map);
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
