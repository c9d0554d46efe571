// SPDX-License-Identifier: Apache-2.0
#include "data/json_lines.hpp"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <set>
#include <stdexcept>
#include <utility>

#include "sft/core/error.hpp"
#include "sft/io/file_kind.hpp"
#include "sft/io/files.hpp"

namespace sft::data {

namespace {

constexpr std::size_t buffer_bytes = 1 << 20;

/// Lines of a file, of a pipe or of standard input.
class LineReader {
 public:
  explicit LineReader(const std::string& input) : name_(input == standard_input ? "standard input" : input) {
    if (input != standard_input) io::require_kind(input, io::Expected::json_lines);
    file_ = input == standard_input ? stdin : std::fopen(input.c_str(), "rbe");
    if (file_ == nullptr) {
      throw_data_error("cannot read '" + name_ + "'", std::strerror(errno), "check the path and its permissions");
    }
    std::setvbuf(file_, nullptr, _IOFBF, buffer_bytes);
  }
  ~LineReader() {
    std::free(line_);
    if (file_ != stdin) std::fclose(file_);
  }
  LineReader(const LineReader&) = delete;
  LineReader& operator=(const LineReader&) = delete;

  [[nodiscard]] const std::string& name() const { return name_; }

  /// The next line without its end; false past the last one. NUL bytes are bytes like others.
  bool next(std::string& line) {
    const ssize_t size = ::getline(&line_, &capacity_, file_);
    if (size < 0) {
      if (std::ferror(file_) != 0)
        throw_data_error("cannot read '" + name_ + "'", std::strerror(errno), "check the disk");
      return false;
    }
    line.assign(line_, static_cast<std::size_t>(size));
    if (line.ends_with('\n')) line.pop_back();
    return true;
  }

 private:
  std::string name_;
  std::FILE* file_ = nullptr;
  char* line_ = nullptr;  // of getline()
  std::size_t capacity_ = 0;
};

}  // namespace

std::vector<std::string> find_inputs(const std::vector<std::string>& patterns) {
  std::vector<std::string> inputs;
  std::set<std::pair<dev_t, ino_t>> seen;
  for (const std::string& pattern : patterns) {
    std::vector<std::string> paths = {pattern};
    if (pattern != standard_input) paths = io::expand_glob(pattern);
    if (paths.empty()) {
      throw_data_error("no input at '" + pattern + "'", "no such file, or no file matches the glob",
                       "name a JSON-lines file");
    }
    for (const std::string& path : paths) {
      struct stat status {};
      if ((path == standard_input ? ::fstat(STDIN_FILENO, &status) : ::stat(path.c_str(), &status)) != 0) {
        throw_data_error("cannot read '" + path + "'", std::strerror(errno), "check the path and its permissions");
      }
      if (S_ISDIR(status.st_mode)) {
        throw_data_error("cannot read '" + path + "'", "it is a folder",
                         "name JSON-lines files, for a folder '" + path + "/*.jsonl'");
      }
      if (!seen.insert({status.st_dev, status.st_ino}).second) {
        throw_data_error("'" + path + "' is named twice", "its records would count double", "name every file once");
      }
      inputs.push_back(path);
    }
  }
  return inputs;
}

std::int64_t total_size_bytes(const std::vector<std::string>& inputs) {
  std::int64_t size = 0;
  for (const std::string& input : inputs) {
    if (input == standard_input || !std::filesystem::is_regular_file(input)) return 0;
    size += static_cast<std::int64_t>(std::filesystem::file_size(input));
  }
  return size;
}

void for_each_line(const std::string& input, const std::function<void(const std::string& line)>& take,
                   const std::function<void(std::int64_t num_bytes)>& advance) {
  LineReader reader(input);
  std::string line;
  for (std::int64_t number = 1; reader.next(line); ++number) {
    advance(static_cast<std::int64_t>(line.size()) + 1);
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      take(line);
    } catch (const std::invalid_argument& reason) {
      throw_data_error(reader.name() + ":" + std::to_string(number) + ": bad record", reason.what(),
                       "correct or remove the line");
    }
  }
}

}  // namespace sft::data
