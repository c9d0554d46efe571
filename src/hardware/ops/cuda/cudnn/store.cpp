// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/cudnn/store.hpp"

#include <unistd.h>

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <system_error>

#include "sft/core/error.hpp"

namespace sft::ops::cuda::cudnn {

namespace {

namespace fs = std::filesystem;

/// Empty where the user has no folder.
fs::path folder() {
  const auto variable = [](const char* name) -> std::string {
    const char* text = std::getenv(name);
    return text != nullptr ? text : "";
  };
  if (const std::string cache = variable("XDG_CACHE_HOME"); !cache.empty()) return fs::path(cache) / "sft/attention";
  if (const std::string home = variable("HOME"); !home.empty()) return fs::path(home) / ".cache/sft/attention";
  return {};
}

}  // namespace

std::string folder_of_graphs() { return folder().string(); }

void require_store() {
  const fs::path place = folder();
  std::error_code error;
  if (!place.empty()) fs::create_directories(place, error);
  if (!place.empty() && !error && ::access(place.c_str(), W_OK) == 0) return;
  throw_config_error(
      "graphs of attention cannot be kept",
      place.empty() ? "neither XDG_CACHE_HOME nor HOME is set" : fmt::format("{} cannot be written to", place.string()),
      "set XDG_CACHE_HOME to a folder that can be written to, here and in the run");
}

std::vector<std::uint8_t> read_graph(const std::string& name) {
  const fs::path place = folder();
  if (place.empty()) return {};
  std::ifstream file(place / name, std::ios::binary);
  if (!file) return {};
  const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
  return {bytes.begin(), bytes.end()};
}

void write_graph(const std::string& name, const std::vector<std::uint8_t>& bytes) {
  const fs::path place = folder();
  if (place.empty()) return;
  std::error_code error;
  fs::create_directories(place, error);
  const fs::path unfinished = place / (name + "." + std::to_string(::getpid()));
  {
    std::ofstream file(unfinished, std::ios::binary | std::ios::trunc);
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    file.flush();
    if (!file) {
      fs::remove(unfinished, error);
      return;
    }
  }
  fs::rename(unfinished, place / name, error);
  if (error) fs::remove(unfinished, error);
}

}  // namespace sft::ops::cuda::cudnn
