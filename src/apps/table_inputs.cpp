// SPDX-License-Identifier: Apache-2.0
#include "table_inputs.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <filesystem>

#include "child_process.hpp"
#include "find_script.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/io/files.hpp"

namespace sft::apps {

namespace {

namespace fs = std::filesystem;

constexpr const char* converter = "postprocess/parquet_to_jsonl.py";

bool is_table_name(const std::string& name) { return name.ends_with(".parquet") || name.ends_with(".arrow"); }

/// Whether Python has to read this input: files by their names, also as a glob; folders by what is in them.
bool is_table(const std::string& input) {
  std::error_code ignored;
  if (!fs::is_directory(input, ignored)) return is_table_name(input);
  if (fs::exists(fs::path(input) / "state.json", ignored) ||
      fs::exists(fs::path(input) / "dataset_dict.json", ignored)) {
    return true;
  }
  return std::ranges::any_of(fs::directory_iterator(input, ignored),
                             [](const fs::directory_entry& entry) { return entry.path().extension() == ".parquet"; });
}

void convert(const std::string& input, const std::string& file) {
  const std::string script = find_script(converter);
  const std::string way_out = "install pyarrow for python3 (pip install pyarrow), or make JSON lines of it elsewhere";
  if (script.empty()) {
    throw_data_error(fmt::format("cannot read {}", input), fmt::format("there is no {}, which reads it", converter),
                     "make JSON lines of it");
  }
  log_info(fmt::format("python3 {} makes JSON lines of {}", script, input));
  const int status = run_and_wait({"python3", script, input, "--output", file}, "", way_out);
  if (status == 0) return;
  throw_data_error(fmt::format("cannot read {}", input),
                   fmt::format("{} ended with status {}; its own line is above", converter, status),
                   "do what that line says, or make JSON lines of it elsewhere");
}

}  // namespace

TableInputs::TableInputs(std::vector<std::string>& inputs, const std::string& output, const data::Team& team) {
  team.agree([&] {
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      if (!is_table(inputs[i])) continue;
      const std::string file = fmt::format("{}/.table-{}.jsonl", output, i);
      if (team.rank() == 0) {
        io::make_folders(output);
        files_.push_back(file);
        convert(inputs[i], file);
      }
      inputs[i] = file;
    }
  });
}

TableInputs::~TableInputs() {
  std::error_code ignored;
  for (const std::string& file : files_) fs::remove(file, ignored);
}

}  // namespace sft::apps
