// SPDX-License-Identifier: Apache-2.0
// Shows what a checkpoint or a packed data set holds, on one rank.
//
//   ./sft-inspect output/demo    of the checkpoint saved last: tensors, their statistics, and the run that wrote them
//   ./sft-inspect output/demo/checkpoint-001400 --verify   reads every shard file and compares checksums, nothing else
//   ./sft-inspect output/demo/checkpoint-001400 --compare output/other/checkpoint-001400    how far two are apart
//   ./sft-inspect --diff output/demo output/other/model    keys, lineage and tensors that two have not in common
//   ./sft-inspect status output/demo    whether a run is alive, how far it is, and what it saved last
//   ./sft-inspect output/demo/checkpoint-001400 --json     the same for programs
//   ./sft-inspect output/demo/checkpoint-001400 --index    makes tensors.h5 in it: whole tensors for HDF5 tools
//   ./sft-inspect output/demo/data [--verify]              of packed data: rows, tokens, targets; all read and compared
//
// Exit status: 0 done; 1 with --diff: tensors differ; 2 command line; 3 no checkpoint, a damaged one, damaged data, or
// two that hold different tensors.

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/json_text.hpp"
#include "apps/common/start_model.hpp"
#include "options.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/checkpoint/inspect.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/core/table.hpp"
#include "views.hpp"

namespace {

using namespace sft;

using apps::InspectOptions;

/// A tensor and its statistics.
struct Row {
  io::TensorInfo tensor;
  checkpoint::Statistics statistics;
};

/// All of a checkpoint that is shown.
struct Contents {
  checkpoint::Header header;
  std::vector<checkpoint::ShardFileInfo> shard_files;
  std::vector<Row> rows;
};

bool is_weight(const io::TensorInfo& tensor) {
  const std::string entry = io::entry_of(tensor.name);
  return entry == "model" || entry == "adapter";
}

/// The tensors of a checkpoint that are asked for: the model's, then those of its other entries.
std::vector<io::TensorInfo> chosen_tensors(const io::TensorSource& source, bool optimizer) {
  std::vector<io::TensorInfo> tensors = source.tensors();
  const auto others = std::stable_partition(tensors.begin(), tensors.end(), is_weight);
  if (!optimizer) tensors.erase(others, tensors.end());
  return tensors;
}

Contents read_contents(const InspectOptions& options) {
  Contents contents{checkpoint::read_header(options.checkpoint), checkpoint::list_shard_files(options.checkpoint), {}};
  const std::unique_ptr<io::TensorSource> source = checkpoint::open_source(options.checkpoint);
  for (const io::TensorInfo& tensor : chosen_tensors(*source, options.optimizer)) {
    contents.rows.push_back({tensor, checkpoint::measure(*source, tensor)});
  }
  return contents;
}

std::string format_total_bytes(const std::vector<checkpoint::ShardFileInfo>& files) {
  std::int64_t bytes = 0;
  for (const checkpoint::ShardFileInfo& file : files) bytes += file.size_bytes;
  return format_bytes(bytes);
}

std::string format_number(double value) { return fmt::format("{:.5g}", value); }

std::string format_shape(const std::vector<std::int64_t>& shape) { return fmt::format("{}", fmt::join(shape, " x ")); }

/// Of all rows as one: sizes and NaNs added, norms joined.
Row total_of(const std::vector<Row>& rows) {
  Row total{{"total", {0}}, rows.empty() ? checkpoint::Statistics{} : rows.front().statistics};
  double sum_of_squares = 0.0;
  total.statistics.num_nan = 0;
  for (const Row& row : rows) {
    total.tensor.shape[0] += row.tensor.num_elements();
    total.statistics.num_nan += row.statistics.num_nan;
    sum_of_squares += row.statistics.norm * row.statistics.norm;
    total.statistics.min = std::min(total.statistics.min, row.statistics.min);
    total.statistics.max = std::max(total.statistics.max, row.statistics.max);
  }
  total.statistics.norm = std::sqrt(sum_of_squares);
  return total;
}

std::vector<std::string> cells_of(const Row& row, const std::string& shape) {
  const checkpoint::Statistics& s = row.statistics;
  return {row.tensor.name,
          shape,
          std::to_string(row.tensor.num_elements()),
          format_number(s.norm),
          format_number(s.min),
          format_number(s.max),
          std::to_string(s.num_nan)};
}

std::string lineage_text(const std::vector<checkpoint::Writer>& writers) {
  Table table({Align::right, Align::left, Align::right, Align::right, Align::left, Align::left});
  table.add({"after step", "mesh", "hosts", "batch", "sft", "run"});
  table.add_rule();
  for (const checkpoint::Writer& writer : writers) {
    const std::string batch = writer.batch_rows > 0 ? fmt::format("{}", writer.batch_rows) : "";
    table.add({fmt::format("{}", writer.step), writer.mesh, fmt::format("{}", writer.num_hosts), batch,
               writer.sft_version, writer.run_id});
  }
  return table.text();
}

void print_text(const Contents& contents, const std::string& folder) {
  const checkpoint::Position& position = contents.header.position;
  Table run({Align::left, Align::left});
  run.add({"checkpoint", folder});
  run.add({"written", fmt::format("{} by sft {}", contents.header.date, contents.header.sft_version)});
  run.add({"format version", fmt::format("{}", contents.header.format_version)});
  run.add({"mesh", contents.header.mesh});
  run.add({"step", std::to_string(position.step)});
  run.add({"epoch", format_number(position.epoch)});
  run.add({"tokens trained on", std::to_string(position.num_tokens)});
  run.add({"rows consumed", fmt::format("{} of {} an epoch, max_length {}", position.rows_consumed, position.num_rows,
                                        position.max_length)});
  run.add({"row order", config::write(position.row_order)});
  run.add({"tokenizer", contents.header.tokenizer});
  run.add(
      {"shard files", fmt::format("{}, {}", contents.shard_files.size(), format_total_bytes(contents.shard_files))});
  log_info(run.text());
  if (!position.writers.empty()) log_info(lineage_text(position.writers));

  Table tensors({Align::left, Align::right, Align::right, Align::right, Align::right, Align::right, Align::right});
  tensors.add({"tensor", "shape", "elements", "norm", "min", "max", "NaN"});
  tensors.add_rule();
  for (const Row& row : contents.rows) tensors.add(cells_of(row, format_shape(row.tensor.shape)));
  tensors.add_rule();
  tensors.add(cells_of(total_of(contents.rows), ""));
  log_info(tensors.text());

  log_info(fmt::format("configuration\n\n{}", contents.header.config_ini));
}

nlohmann::ordered_json to_json(const Contents& contents, const std::string& folder) {
  const checkpoint::Position& position = contents.header.position;
  nlohmann::ordered_json json = {{"checkpoint", folder},
                                 {"date", contents.header.date},
                                 {"sft_version", contents.header.sft_version},
                                 {"mesh", contents.header.mesh},
                                 {"step", position.step},
                                 {"epoch", position.epoch},
                                 {"num_tokens", position.num_tokens},
                                 {"rows_consumed", position.rows_consumed},
                                 {"row_order", config::write(position.row_order)},
                                 {"num_rows", position.num_rows},
                                 {"max_length", position.max_length},
                                 {"tokenizer", contents.header.tokenizer},
                                 {"config", contents.header.config_ini}};
  json["format_version"] = contents.header.format_version;
  json["writers"] = nlohmann::ordered_json::array();
  for (const checkpoint::Writer& writer : position.writers) {
    json["writers"].push_back({{"step", writer.step},
                               {"run_id", writer.run_id},
                               {"sft_version", writer.sft_version},
                               {"num_hosts", writer.num_hosts},
                               {"mesh", writer.mesh}});
    if (writer.batch_rows > 0) json["writers"].back()["batch_rows"] = writer.batch_rows;
  }
  json["shards"] = nlohmann::ordered_json::array();
  for (const checkpoint::ShardFileInfo& file : contents.shard_files) {
    json["shards"].push_back({{"name", file.name}, {"size_bytes", file.size_bytes}});
  }
  json["tensors"] = nlohmann::ordered_json::array();
  for (const auto& [tensor, statistics] : contents.rows) {
    json["tensors"].push_back({{"name", tensor.name},
                               {"shape", tensor.shape},
                               {"norm", statistics.norm},
                               {"min", statistics.min},
                               {"max", statistics.max},
                               {"num_nan", statistics.num_nan}});
  }
  return json;
}

void print_verified(const InspectOptions& options) {
  checkpoint::verify(options.checkpoint);
  const std::vector<checkpoint::ShardFileInfo> files = checkpoint::list_shard_files(options.checkpoint);
  const bool has_index = std::filesystem::exists(std::filesystem::path(options.checkpoint) / "tensors.h5");
  if (options.json) {
    nlohmann::ordered_json json = {
        {"checkpoint", options.checkpoint}, {"verified", true}, {"num_shards", files.size()}};
    if (has_index) json["not_verified"] = {"tensors.h5"};
    log_info(apps::json_text(json));
    return;
  }
  log_info(fmt::format("{}: {}, {}, all as they were written", options.checkpoint,
                       plural(std::ssize(files), "shard file"), format_total_bytes(files)));
  if (has_index) log_info("tensors.h5 is not checked, because sft does not read it; --index makes it again");
}

/// The tensor in `tensors`, which are those of `folder`, that has the name of `wanted`, which is one of `other`.
const io::TensorInfo& namesake(const std::string& folder, const std::vector<io::TensorInfo>& tensors,
                               const std::string& other, const io::TensorInfo& wanted) {
  const auto found = std::ranges::find(tensors, wanted.name, &io::TensorInfo::name);
  if (found == tensors.end()) {
    throw_data_error(fmt::format("cannot compare {}", wanted.name), fmt::format("{} has it, {} has not", other, folder),
                     "compare checkpoints of one model");
  }
  return *found;
}

void print_comparison(const InspectOptions& options) {
  const std::unique_ptr<io::TensorSource> source = checkpoint::open_source(options.checkpoint);
  const std::unique_ptr<io::TensorSource> other = checkpoint::open_source(options.other);
  const auto tensors = chosen_tensors(*source, options.optimizer);
  const auto others = chosen_tensors(*other, options.optimizer);
  for (const io::TensorInfo& tensor : others) (void)namesake(options.checkpoint, tensors, options.other, tensor);
  std::vector<io::TensorInfo> namesakes;
  for (const io::TensorInfo& tensor : tensors) {
    namesakes.push_back(namesake(options.other, others, options.checkpoint, tensor));
  }

  Table table({Align::left, Align::right, Align::right});
  table.add({"tensor", "largest difference", "relative norm"});
  table.add_rule();
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < tensors.size(); ++i) {
    const checkpoint::Difference difference = checkpoint::compare(*source, tensors[i], *other, namesakes[i]);
    table.add({tensors[i].name, format_number(difference.max_abs), format_number(difference.relative())});
    json.push_back({{"name", tensors[i].name}, {"max_abs", difference.max_abs}, {"relative", difference.relative()}});
  }
  log_info(options.json ? apps::json_text(json) : table.text());
}

int run(const std::vector<std::string>& arguments) {
  std::optional<InspectOptions> options = apps::read_inspect_options(arguments);
  if (!options) return static_cast<int>(ExitStatus::done);
  if (!options->run.empty()) {
    apps::print_status(options->run, options->json);
    return static_cast<int>(ExitStatus::done);
  }
  if (options->diff) {
    const bool is_same = apps::print_diff({options->checkpoint, options->other, options->optimizer, options->json});
    return static_cast<int>(is_same ? ExitStatus::done : ExitStatus::failure);
  }
  if (const auto files = apps::packed_files_at(options->checkpoint)) {
    if (options->optimizer || options->index || !options->other.empty()) {
      const char* const option = options->optimizer ? "--optimizer" : options->index ? "--index" : "--compare";
      throw_config_error(fmt::format("{} with {}", option, options->checkpoint), "this is packed data, no checkpoint",
                         "leave the option out");
    }
    apps::inspect_data(*files, options->verify, options->json);
    return static_cast<int>(ExitStatus::done);
  }
  options->checkpoint = apps::checkpoint_at(options->checkpoint);
  if (!options->other.empty()) options->other = apps::checkpoint_at(options->other);
  if (options->index) {
    log_info(fmt::format("whole tensors: {}", checkpoint::write_tensor_index(options->checkpoint)));
  } else if (options->verify) {
    print_verified(*options);
  } else if (!options->other.empty()) {
    print_comparison(*options);
  } else {
    const Contents contents = read_contents(*options);
    if (options->json) {
      log_info(apps::json_text(to_json(contents, options->checkpoint)));
    } else {
      print_text(contents, options->checkpoint);
    }
  }
  return static_cast<int>(ExitStatus::done);
}

}  // namespace

int main(int argc, char** argv) {
  raise_open_file_limit();
  return run_alone([&] { return run(std::vector<std::string>(argv + 1, argv + argc)); });
}
