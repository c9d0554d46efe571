// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/prepared.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "launch/environment.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/core/program.hpp"
#include "sft/io/files.hpp"
#include "sft/io/hash.hpp"

namespace sft::launch {

namespace fs = std::filesystem;

namespace {

constexpr const char* mark = "command.txt";

/// Where a file is, its size and its time: another file, or a changed one, has others.
void add_identity(io::ContentHash& hash, const std::string& path) {
  std::error_code error;
  const fs::path file = fs::canonical(path, error);
  if (error) throw_data_error(fmt::format("cannot read {}", path), error.message(), "check the path");
  hash.add(file.string());
  if (fs::is_directory(file, error)) {  // a table of several files
    std::vector<fs::path> parts(fs::directory_iterator(file, error), {});
    std::ranges::sort(parts);
    for (const fs::path& part : parts) {
      if (!fs::is_directory(part, error)) add_identity(hash, part.string());
    }
    return;
  }
  hash.add(static_cast<std::int64_t>(fs::file_size(file, error)));
  hash.add(static_cast<std::int64_t>(fs::last_write_time(file, error).time_since_epoch().count()));
}

/// What a tokenizer and a chat template are made of: all small files beside the weights.
void add_contents(io::ContentHash& hash, const std::string& folder) {
  std::vector<fs::path> files;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, ignored)) {
    static constexpr std::uintmax_t most_bytes = std::uintmax_t{64} << 20;
    const std::string name = entry.path().filename().string();
    const bool is_weights = name.ends_with(".safetensors") || name.ends_with(".bin") || name.ends_with(".gguf");
    if (entry.is_regular_file(ignored) && !is_weights && entry.file_size(ignored) <= most_bytes) {
      files.push_back(entry.path());
    }
  }
  std::ranges::sort(files);
  for (const fs::path& file : files) {
    hash.add(file.filename().string());
    hash.add(io::read_file(file.string()));
  }
}

}  // namespace

std::string cache_of_rows(const std::string& cache) {
  if (!cache.empty()) return cache;
  if (const std::string own = variable("SFT_CACHE"); !own.empty()) return own + "/prepared";
  if (const std::string of_user = variable("XDG_CACHE_HOME"); !of_user.empty()) return of_user + "/sft/prepared";
  return variable("HOME") + "/.cache/sft/prepared";
}

Prepared plan_preparation(const InputFiles& inputs, const std::string& tokenizer_folder,
                          const std::map<std::string, std::string>& options, const std::string& program,
                          const std::string& cache) {
  Prepared prepared;
  io::ContentHash hash;
  hash.add(std::string(version()));
  add_identity(hash, program);
  for (std::size_t i = 0; i < inputs.files.size(); ++i) {
    add_identity(hash, inputs.files[i]);
    prepared.words.insert(prepared.words.end(), {"--input", config::write(inputs.files[i])});
    if (!inputs.weights.empty()) {
      prepared.words.push_back(fmt::format("--input_weight={}", inputs.weights[i]));
      hash.add(prepared.words.back());
    }
    if (inputs.slices.empty()) continue;
    hash.add(fmt::format("input_slice={}", inputs.slices[i]));
    prepared.words.push_back(fmt::format("--input_slice={}", inputs.slices[i]));
  }
  for (const auto& [name, value] : options) {
    const bool changes_rows = name != "num_threads" && name != "preview" && name != "stats";
    if (changes_rows) hash.add(fmt::format("{}={}", name, value));
    prepared.words.push_back(fmt::format("--{}={}", name, value));
  }
  for (const char* file : {"chat_template_path", "tokenizer"}) {
    const auto found = options.find(file);
    std::error_code ignored;
    if (found == options.end()) continue;
    if (fs::is_regular_file(found->second, ignored)) hash.add(io::read_file(found->second));
    if (fs::is_directory(found->second, ignored)) add_contents(hash, found->second);
  }
  if (!tokenizer_folder.empty()) add_contents(hash, tokenizer_folder);
  const std::string fingerprint = hash.text();  // "xxh128:..."
  prepared.folder = fmt::format("{}/{}", cache_of_rows(cache), fingerprint.substr(fingerprint.find(':') + 1));
  prepared.words.insert(prepared.words.end(), {"--output", config::write(prepared.folder)});
  std::error_code ignored;
  prepared.is_there = fs::exists(fs::path(prepared.folder) / mark, ignored);
  return prepared;
}

bool has_token(const std::string& folder, const std::string& token) {
  std::error_code ignored;
  const std::string file = (fs::path(folder) / "tokenizer.json").string();
  return fs::exists(file, ignored) && io::read_file(file).find(nlohmann::json(token).dump()) != std::string::npos;
}

void mark_prepared(const Prepared& prepared) {
  io::write_file_atomically(fmt::format("{}/{}", prepared.folder, mark),
                            fmt::format("sft-prepare {}\n", fmt::join(prepared.words, " ")));
}

void remove_unfinished(const Prepared& prepared) {
  std::error_code ignored;
  std::vector<fs::path> shards;
  for (const fs::directory_entry& entry : fs::directory_iterator(prepared.folder, ignored)) {
    if (entry.path().extension() == ".h5") shards.push_back(entry.path());
  }
  for (const fs::path& shard : shards) fs::remove(shard, ignored);
}

}  // namespace sft::launch
