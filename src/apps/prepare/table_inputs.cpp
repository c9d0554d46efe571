// SPDX-License-Identifier: Apache-2.0
#include "table_inputs.hpp"

#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <system_error>
#include <utility>

#include "apps/common/child_process.hpp"
#include "apps/common/find_script.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/io/file_kind.hpp"
#include "sft/io/file_lock.hpp"
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
  const bool is_of_column = reason.find(", column ") != std::string::npos;
  throw_data_error(fmt::format("cannot read {}", input), reason,
                   is_of_column
                       ? "correct it, leave a column out with --ignore_fields, or make JSON lines of it elsewhere"
                       : "correct it, or make JSON lines of it elsewhere");
}

constexpr const char* folder_begin = ".tables-";
constexpr const char* lock_name = "/lock";

/// Removes what a process left that was killed: folders whose lock is free.
void remove_abandoned(const std::string& output) {
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(output, ignored)) {
    const bool is_of_tables = entry.path().filename().string().starts_with(folder_begin);
    if (is_of_tables && !io::state_of_lock(entry.path().string() + lock_name).is_held) {
      fs::remove_all(entry.path(), ignored);
    }
  }
}

}  // namespace

/// A folder that goes with this object, or is known as abandoned by its lock.
class TableInputs::Folder {
 public:
  explicit Folder(const std::string& output)
      : path_(fmt::format("{}/{}{}-{:08x}", output, folder_begin, ::getpid(), std::random_device()())) {
    io::make_folders(path_);
    lock_.emplace(path_ + lock_name);
  }
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::optional<io::FileLock> lock_;
};

TableInputs::TableInputs(prepare::PrepareOptions& options, const prepare::Team& team) {
  std::vector<bool> are_tables(options.inputs.size());
  team.agree([&] {
    for (std::size_t i = 0; i < options.inputs.size(); ++i) are_tables[i] = is_table(options.inputs[i]);
    if (team.rank() != 0 || std::ranges::find(are_tables, true) == are_tables.end()) return;
    remove_abandoned(options.output);
    folder_ = std::make_unique<Folder>(options.output);
    for (std::size_t i = 0; i < options.inputs.size(); ++i) {
      if (!are_tables[i]) continue;
      const std::string folder = fmt::format("{}/{}", folder_->path(), i);
      io::make_folders(folder);
      convert(options.inputs[i], options.example.ignore_fields, folder);
    }
  });
  const std::string path = team.all_gather(folder_ ? folder_->path() : "").front();
  team.agree([&] { put_in_place(options, are_tables, path); });
}

TableInputs::~TableInputs() = default;

void TableInputs::put_in_place(prepare::PrepareOptions& options, const std::vector<bool>& are_tables,
                               const std::string& path) {
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
    const std::string folder = fmt::format("{}/{}", path, i);
    std::ifstream sources(folder + "/sources");
    std::string line;
    for (int file = 0; std::getline(sources, line); ++file) {
      add(i, fmt::format("{}/{:05}.jsonl", folder, file));
      options.stands_for[inputs.back()] = nlohmann::json::parse(line);
    }
  }
  options.inputs = std::move(inputs);
  options.input_groups = std::move(groups);
}

}  // namespace sft::apps
