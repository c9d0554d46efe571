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

/// Whether Python has to read this input: files and those of a glob by their first bytes, folders by what is in them.
bool is_table(const std::string& input) {
  std::error_code ignored;
  if (!fs::is_directory(input, ignored)) {
    const std::vector<std::string> files = io::expand_glob(input);
    const auto num_tables = std::ranges::count_if(files, io::is_table);
    if (num_tables != 0 && num_tables != std::ssize(files)) {
      throw_data_error(fmt::format("cannot read '{}'", input), "some of its files are Parquet or Arrow, others are not",
                       "name each kind by an --input of its own");
    }
    return num_tables != 0;
  }
  if (fs::exists(fs::path(input) / "state.json", ignored) ||
      fs::exists(fs::path(input) / "dataset_dict.json", ignored)) {
    return true;
  }
  return std::ranges::any_of(fs::directory_iterator(input, ignored),
                             [](const fs::directory_entry& entry) { return entry.path().extension() == ".parquet"; });
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

}  // namespace

TableInputs::TableInputs(data::PrepareOptions& options, const data::Team& team) {
  std::vector<std::pair<std::size_t, fs::path>> converted;
  team.agree([&] {
    for (std::size_t i = 0; i < options.inputs.size(); ++i) {
      const std::string& input = options.inputs[i];
      if (!is_table(input)) continue;
      const fs::path folder = fs::path(options.output) / fmt::format(".tables-{}", i);
      converted.emplace_back(i, folder);
      if (team.rank() != 0) continue;
      folders_.push_back(folder);
      io::make_folders(folder.string());
      convert(input, options.example.ignore_fields, folder);
    }
  });
  team.agree([&] {
    for (const auto& [i, folder] : converted) {
      std::ifstream sources(folder / "sources");
      std::string line;
      for (int file = 0; std::getline(sources, line); ++file) {
        options.stands_for[(folder / fmt::format("{:05}.jsonl", file)).string()] = nlohmann::json::parse(line);
      }
      options.stands_for[folder.string()] = std::exchange(options.inputs[i], folder.string());
    }
  });
}

TableInputs::~TableInputs() {
  std::error_code ignored;
  for (const fs::path& folder : folders_) fs::remove_all(folder, ignored);
}

}  // namespace sft::apps
