// SPDX-License-Identifier: Apache-2.0
#include "table_inputs.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <system_error>
#include <utility>

#include "child_process.hpp"
#include "find_script.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/io/file_kind.hpp"
#include "sft/io/files.hpp"

namespace sft::apps {

namespace {

namespace fs = std::filesystem;

constexpr const char* converter = "postprocess/parquet_to_jsonl.py";

/// Whether Python has to read this input: a file by its first bytes, or a folder that save_to_disk left.
bool is_table(const std::string& input) {
  std::error_code ignored;
  return fs::is_directory(input, ignored) || io::is_table(input);
}

std::string text_of(const fs::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Makes JSON lines of the files of `input`, one of each, in `folder`.
void convert(const std::string& input, const std::vector<std::string>& left_out, const fs::path& folder) {
  const std::string script = find_script(converter);
  if (script.empty()) {
    throw_data_error(fmt::format("cannot read {}", input), fmt::format("there is no {}, which reads it", converter),
                     "make JSON lines of it");
  }
  log_info(fmt::format("python3 {} makes JSON lines of {}", script, input));
  std::string columns;
  for (const std::string& name : left_out) columns += (columns.empty() ? "" : ",") + name;
  const int status =
      run_and_wait({"python3", script, "--output_folder", folder.string(), "--leave_out", columns, "--", input}, "",
                   "install pyarrow for python3 (pip install pyarrow), or make JSON lines of it elsewhere");
  if (status == 0) return;
  std::string reason = text_of(folder / "error");
  if (reason.empty()) reason = fmt::format("{} ended with status {}", converter, status);
  throw_data_error(fmt::format("cannot read {}", input), reason,
                   "correct it, leave a column out with --ignore_fields, or make JSON lines of it elsewhere");
}

/// The folder in which the files of input `i` become JSON lines.
fs::path folder_of(const data::PrepareOptions& options, std::size_t i) {
  return fs::path(options.output) / fmt::format(".tables-{}", i);
}

}  // namespace

TableInputs::TableInputs(data::PrepareOptions& options, const data::Team& team) {
  std::vector<bool> are_tables(options.inputs.size());
  team.agree([&] {
    for (std::size_t i = 0; i < options.inputs.size(); ++i) {
      are_tables[i] = is_table(options.inputs[i]);
      if (!are_tables[i] || team.rank() != 0) continue;
      folders_.push_back(folder_of(options, i));
      io::make_folders(folders_.back().string());
      convert(options.inputs[i], options.example.ignore_fields, folders_.back());
    }
  });
  team.agree([&] { put_in_place(options, are_tables); });
}

void TableInputs::put_in_place(data::PrepareOptions& options, const std::vector<bool>& are_tables) {
  std::vector<std::string> inputs;
  std::vector<std::size_t> groups;
  const auto add = [&](std::size_t i, std::string input) {
    inputs.push_back(std::move(input));
    groups.push_back(options.input_groups.empty() ? i : options.input_groups[i]);
  };
  for (std::size_t i = 0; i < options.inputs.size(); ++i) {
    if (!are_tables[i]) {
      add(i, options.inputs[i]);
      continue;
    }
    const fs::path folder = folder_of(options, i);
    std::ifstream sources(folder / "sources");
    std::string line;
    for (int file = 0; std::getline(sources, line); ++file) {
      add(i, (folder / fmt::format("{:05}.jsonl", file)).string());
      options.stands_for[inputs.back()] = nlohmann::json::parse(line);
    }
  }
  options.inputs = std::move(inputs);
  options.input_groups = std::move(groups);
}

TableInputs::~TableInputs() {
  std::error_code ignored;
  for (const fs::path& folder : folders_) fs::remove_all(folder, ignored);
}

}  // namespace sft::apps
