#include "data/json_lines.hpp"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <stdexcept>

#include "sft/core/error.hpp"
#include "sft/io/files.hpp"

namespace sft::data {

std::vector<std::string> find_inputs(const std::vector<std::string>& patterns) {
  std::vector<std::string> inputs;
  std::set<std::filesystem::path> seen;
  for (const std::string& pattern : patterns) {
    const std::vector<std::string> paths = io::expand_glob(pattern);
    if (paths.empty()) {
      throw_data_error("no input at '" + pattern + "'", "no such file, or no file matches the glob",
                       "name a JSON-lines file");
    }
    for (const std::string& path : paths) {
      if (!std::filesystem::is_regular_file(path)) {
        throw_data_error("cannot read '" + path + "'", "it is not a regular file",
                         "name JSON-lines files, for a folder '" + path + "/*.jsonl'");
      }
      if (!seen.insert(std::filesystem::canonical(path)).second) {
        throw_data_error("'" + path + "' is named twice", "its records would count double", "name every file once");
      }
      inputs.push_back(path);
    }
  }
  return inputs;
}

void for_each_line(const std::string& path, const std::function<void(const std::string& line)>& take,
                   const std::function<void(std::int64_t num_bytes)>& advance) {
  std::vector<char> buffer(1 << 20);
  std::ifstream file;
  file.rdbuf()->pubsetbuf(buffer.data(), static_cast<std::streamsize>(buffer.size()));
  file.open(path, std::ios::binary);
  if (!file) throw_data_error("cannot read '" + path + "'", std::strerror(errno), "check the path and its permissions");
  std::string line;
  for (std::int64_t number = 1; std::getline(file, line); ++number) {
    advance(static_cast<std::int64_t>(line.size()) + 1);
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      take(line);
    } catch (const std::invalid_argument& reason) {
      throw_data_error(path + ":" + std::to_string(number) + ": bad record", reason.what(),
                       "correct or remove the line");
    }
  }
  if (file.bad()) throw_data_error("cannot read '" + path + "'", "reading failed midway", "check the disk");
}

}  // namespace sft::data
