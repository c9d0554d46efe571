// SPDX-License-Identifier: Apache-2.0
#include "gguf.hpp"

#include <fmt/core.h>
#include <unistd.h>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <vector>

#include "apps/common/child_process.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"

namespace sft::apps {

namespace {

namespace fs = std::filesystem;

constexpr std::array<const char*, 2> converter_names{"convert_hf_to_gguf.py", "convert-hf-to-gguf"};

bool is_file(const fs::path& path) {
  std::error_code ignored;
  return fs::is_regular_file(path, ignored);
}

/// The file of that name in a folder of PATH; empty: none has one.
std::string found_on_path(const std::string& name) {
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path == nullptr ? "" : path);
  for (std::string folder; std::getline(folders, folder, ':');) {
    const fs::path file = fs::path(folder) / name;
    if (!folder.empty() && is_file(file)) return file.string();
  }
  return "";
}

/// Removes a file that was not finished.
struct Unfinished {
  std::string path;
  ~Unfinished() {
    std::error_code ignored;
    fs::remove(path, ignored);
  }
};

}  // namespace

std::string find_gguf_converter(const std::string& given) {
  if (!given.empty()) {
    const std::string found = is_file(given) ? given : found_on_path(given);
    if (!found.empty()) return found;
    throw_config_error(fmt::format("there is no GGUF converter {}", given),
                       "--gguf_converter names llama.cpp's convert_hf_to_gguf.py", "correct the path");
  }
  for (const char* const name : converter_names) {
    if (std::string found = found_on_path(name); !found.empty()) return found;
  }
  throw_config_error("cannot find llama.cpp's converter to GGUF",
                     fmt::format("neither {} nor {} is on PATH", converter_names[0], converter_names[1]),
                     "give it with --gguf_converter, as in --gguf_converter ~/llama.cpp/convert_hf_to_gguf.py");
}

void convert_to_gguf(const std::string& converter, const std::string& from, const std::string& to,
                     const std::string& type) {
  std::error_code ignored;
  if (fs::exists(to, ignored)) {
    throw_data_error(fmt::format("cannot write to {}", to), "it is there already", "give a file that is new");
  }
  const Unfinished unfinished{to + ".tmp"};
  std::vector<std::string> words{converter, from, "--outfile", unfinished.path, "--outtype", type};
  if (::access(converter.c_str(), X_OK) != 0) words.insert(words.begin(), "python3");
  log_info(fmt::format("{} makes {} of {}", converter, to, from));
  if (const int status = run_and_wait(words, "", "install Python 3, or make the converter executable"); status != 0) {
    throw_data_error(fmt::format("{} could not convert {}", converter, from),
                     fmt::format("it ended with status {}; its own lines are above", status),
                     "see whether llama.cpp knows this kind of model, and install what the converter asks for: the "
                     "requirements-convert_hf_to_gguf.txt beside it names one version of transformers");
  }
  std::array<char, 4> magic{};
  std::ifstream(unfinished.path, std::ios::binary).read(magic.data(), magic.size());
  if (std::string(magic.data(), magic.size()) != "GGUF") {
    throw_data_error(fmt::format("{} left no GGUF file", converter),
                     fmt::format("{} does not begin as one", unfinished.path),
                     "see that it is llama.cpp's convert_hf_to_gguf.py");
  }
  fs::rename(unfinished.path, to);
  log_info(fmt::format("wrote {}: {} bytes", to, fs::file_size(to)));
}

}  // namespace sft::apps
