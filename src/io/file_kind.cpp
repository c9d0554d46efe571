// SPDX-License-Identifier: Apache-2.0
#include "sft/io/file_kind.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

#include "sft/core/error.hpp"

namespace sft::io {

namespace fs = std::filesystem;

namespace {

enum class Kind {
  unknown,
  ini,
  yaml,
  config_json,
  deepspeed_json,
  json,
  json_array,
  json_lines,
  csv,
  utf16,
  git_lfs,
  parquet,
  arrow,
  compressed,
  zip,
  safetensors,
  pytorch,
  gguf,
  hdf5,
  hub_folder,
  adapter_folder,
  dataset_folder,
  checkpoint_folder,
  output_folder,
  shard_folder,
  folder,
};

std::string describe(Kind kind) {
  switch (kind) {
    case Kind::ini:
      return "it is an .ini file";
    case Kind::yaml:
      return "it is a YAML file";
    case Kind::config_json:
      return "it is the config.json of a model";
    case Kind::deepspeed_json:
      return "it is a DeepSpeed configuration";
    case Kind::json:
      return "it is a JSON file";
    case Kind::json_array:
      return "it is one JSON array";
    case Kind::json_lines:
      return "it is a JSON-lines file";
    case Kind::csv:
      return "it is a table of text";
    case Kind::utf16:
      return "it is text in UTF-16";
    case Kind::git_lfs:
      return "it is a pointer of git-lfs, which stands for the file";
    case Kind::parquet:
      return "it is a Parquet file";
    case Kind::arrow:
      return "it is an Arrow file";
    case Kind::compressed:
      return "it is compressed";
    case Kind::zip:
      return "it is a ZIP archive";
    case Kind::safetensors:
      return "it is a safetensors file";
    case Kind::pytorch:
      return "it is a PyTorch file";
    case Kind::gguf:
      return "it is a GGUF file";
    case Kind::hdf5:
      return "it is an HDF5 file";
    case Kind::hub_folder:
      return "it is a hub folder: config.json with weights or tokenizer";
    case Kind::adapter_folder:
      return "it is a PEFT folder with an adapter";
    case Kind::dataset_folder:
      return "it is a folder of the datasets library";
    case Kind::checkpoint_folder:
      return "it is a checkpoint";
    case Kind::output_folder:
      return "it is the output folder of a run";
    case Kind::shard_folder:
      return "it is a folder of packed shards";
    case Kind::folder:
      return "it is a folder";
    case Kind::unknown:
      break;
  }
  return {};
}

bool holds_any(const fs::path& folder, const std::vector<std::string>& names) {
  std::error_code ignored;
  for (const std::string& name : names) {
    if (fs::exists(folder / name, ignored)) return true;
  }
  return false;
}

bool holds_file_like(const fs::path& folder, std::string_view prefix, std::string_view suffix) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with(prefix) && name.ends_with(suffix)) return true;
  }
  return false;
}

Kind kind_of_folder(const fs::path& folder) {
  if (holds_any(folder, {"checkpoint.h5"})) return Kind::checkpoint_folder;
  if (holds_any(folder, {"adapter_config.json"})) return Kind::adapter_folder;
  if (holds_any(folder, {"config.json", "tokenizer.json", "model.safetensors"})) return Kind::hub_folder;
  if (holds_any(folder, {"dataset_info.json", "dataset_dict.json"})) return Kind::dataset_folder;
  if (holds_any(folder, {"resolved.ini", "metrics.jsonl"}) || holds_file_like(folder, "checkpoint-", "")) {
    return Kind::output_folder;
  }
  return holds_file_like(folder, "train-", ".h5") ? Kind::shard_folder : Kind::folder;
}

std::string read_start(const std::string& path) {
  constexpr std::size_t num_bytes = 1 << 14;
  std::string start(num_bytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), static_cast<std::streamsize>(num_bytes));
  start.resize(file.gcount());
  return start;
}

/// LZ4 and Zstandard have frames without data.
bool is_skippable_frame(const std::string& start) {
  return start.size() >= 4 && (start[0] & 0xF0) == 0x50 && start.compare(1, 3, "\x2a\x4d\x18") == 0;
}

/// By the bytes that formats begin with.
Kind kind_of_magic(const std::string& start) {
  constexpr std::string_view hdf5 = "\x89HDF\r\n\x1a\n";
  for (std::size_t offset = 0; offset + hdf5.size() <= start.size(); offset = offset == 0 ? 512 : 2 * offset) {
    if (start.compare(offset, hdf5.size(), hdf5) == 0) return Kind::hdf5;  // behind a user block, too
  }
  if (start.starts_with("PAR1")) return Kind::parquet;
  if (start.starts_with("ARROW1") || start.starts_with("\xff\xff\xff\xff")) return Kind::arrow;
  if (start.starts_with("\x1f\x8b") || start.starts_with("\x28\xb5\x2f\xfd") || start.starts_with("BZh") ||
      start.starts_with("\xfd"
                        "7zXZ")) {
    return Kind::compressed;
  }
  if (start.starts_with("\x04\x22\x4d\x18") || is_skippable_frame(start)) return Kind::compressed;
  if (start.starts_with("\x80\x02")) return Kind::pytorch;
  if (start.starts_with("PK\x03\x04") || start.starts_with("PK\x05\x06")) {
    return start.find("data.pkl") == std::string::npos ? Kind::zip : Kind::pytorch;  // torch.save writes archives
  }
  if (start.starts_with("GGUF")) return Kind::gguf;
  if (start.starts_with("version https://git-lfs.github.com/spec/")) return Kind::git_lfs;
  if (start.starts_with("\xff\xfe") || start.starts_with("\xfe\xff")) return Kind::utf16;
  const bool has_header = start.size() > 9 && start[8] == '{' && start.substr(4, 4) == std::string(4, '\0');
  return has_header ? Kind::safetensors : Kind::unknown;
}

/// Whether the first line is a whole object and not the first line of one.
bool is_lines(std::string_view text) {
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::size_t last = line.find_last_not_of(" \t\r");
  return last != std::string_view::npos && line[last] == '}' && line.find(':') != std::string_view::npos;
}

/// Whether the first line that says something is `word:`, as in YAML.
bool begins_as_yaml(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    if (line.starts_with("---")) return true;
    if (line.find_first_not_of(" \t\r") == std::string_view::npos || line.front() == '#') continue;
    std::size_t end = 0;
    while (end < line.size() && (std::isalnum(static_cast<unsigned char>(line[end])) != 0 || line[end] == '_')) ++end;
    return end > 0 && end < line.size() && line[end] == ':' && line.find('=') == std::string_view::npos;
  }
  return false;
}

Kind kind_of_text(const fs::path& path, std::string_view start) {
  const std::string extension = path.extension().string();
  if (extension == ".csv" || extension == ".tsv") return Kind::csv;
  const std::size_t first = start.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return Kind::unknown;
  const std::string_view text = start.substr(first);
  if (text.front() == '{') {
    const auto says = [&](std::string_view word) { return start.find(word) != std::string_view::npos; };
    if (path.filename() == "config.json") return Kind::config_json;
    if (is_lines(text)) return Kind::json_lines;
    if (says("\"model_type\"") || says("\"architectures\"")) return Kind::config_json;
    if (says("\"zero_optimization\"") || says("\"train_micro_batch_size_per_gpu\"")) return Kind::deepspeed_json;
    return Kind::json;
  }
  if (text.front() == '[') {
    const std::size_t second = text.find_first_not_of(" \t\r\n", 1);
    const bool is_section = second == std::string_view::npos || text[second] == '_' ||
                            std::isalpha(static_cast<unsigned char>(text[second])) != 0;
    return is_section ? Kind::ini : Kind::json_array;
  }
  return extension == ".yaml" || extension == ".yml" || begins_as_yaml(text) ? Kind::yaml : Kind::unknown;
}

Kind kind_of(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error || !fs::exists(status)) return Kind::unknown;
  if (fs::is_directory(status)) return kind_of_folder(path);
  if (!fs::is_regular_file(status)) return Kind::unknown;
  const std::string start = read_start(path);
  const Kind kind = kind_of_magic(start);
  return kind == Kind::unknown ? kind_of_text(path, start) : kind;
}

bool fits(Kind kind, Expected expected) {
  if (kind == Kind::unknown) return true;
  switch (expected) {
    case Expected::configuration:
      return kind == Kind::ini;
    case Expected::json_lines:
      return kind == Kind::json_lines || kind == Kind::json || kind == Kind::json_array;
    case Expected::packed_shard:
      return kind == Kind::hdf5;
    case Expected::checkpoint:
      return kind == Kind::checkpoint_folder || kind == Kind::output_folder || kind == Kind::folder;
    case Expected::model:
      return kind == Kind::hub_folder || kind == Kind::checkpoint_folder || kind == Kind::output_folder ||
             kind == Kind::folder;
  }
  return true;
}

std::string advice_for_configuration(Kind kind, const std::string& path) {
  switch (kind) {
    case Kind::yaml:
    case Kind::deepspeed_json:
      return "write its settings as key = value lines of an .ini file; one of Accelerate, DeepSpeed, TRL or Axolotl "
             "may "
             "be given to sft and sft-launch as it is, under a name that ends in .yaml or .json";
    case Kind::config_json:
    case Kind::hub_folder:
      return "give an .ini file, and set model.model_name_or_path in it to the folder of the model";
    case Kind::output_folder:
      return fmt::format("give its configuration, {}/resolved.ini", path);
    case Kind::checkpoint_folder:
      return "give the .ini file of the run, and --checkpoint.resume_from_checkpoint " + path;
    case Kind::hdf5:
    case Kind::shard_folder:
      return "give the .ini file of a run, and name packed shards in its data.train_files";
    default:
      return "give the .ini file of a run; `sft --help` lists its keys, and inputs/ has examples";
  }
}

std::string advice_for_json_lines(Kind kind, const std::string& path) {
  switch (kind) {
    case Kind::compressed:
      return fmt::format("unpack it first, or pipe it in: `xzcat {} | sft-prepare --input - ...`", path);
    case Kind::zip:
      return fmt::format("unpack it first, `unzip {}`, and name the files that were in it", path);
    case Kind::parquet:
      return fmt::format("write it as JSON lines first: postprocess/parquet_to_jsonl.py {} --output FILE.jsonl", path);
    case Kind::arrow:
    case Kind::csv:
    case Kind::dataset_folder:
      return "write it as JSON lines first, such as with to_json(PATH, orient='records', lines=True) in Python";
    case Kind::hdf5:
    case Kind::shard_folder:
      return "packed shards need no more preparation: name them in data.train_files of an .ini file";
    case Kind::config_json:
    case Kind::hub_folder:
      return "give files of records; --model_name_or_path takes the folder of a model";
    default:
      return "give JSON-lines files of messages, prompt/completion or text records";
  }
}

std::string advice_for_shard(Kind kind, const std::string& path) {
  switch (kind) {
    case Kind::json_lines:
    case Kind::json:
    case Kind::json_array:
      return fmt::format(
          "prepare it first, `sft-prepare --input {} --output FOLDER`, and set data.train_files = FOLDER/train-*.h5",
          path);
    case Kind::shard_folder:
      return fmt::format("set data.train_files = {}/train-*.h5", path);
    case Kind::parquet:
    case Kind::arrow:
    case Kind::csv:
    case Kind::compressed:
    case Kind::zip:
    case Kind::dataset_folder:
      return "write it as JSON lines, prepare those with sft-prepare, and set data.train_files = FOLDER/train-*.h5";
    default:
      return "name shards that sft-prepare wrote, data.train_files = FOLDER/train-*.h5";
  }
}

std::string advice_for_checkpoint(Kind kind) {
  if (kind == Kind::hub_folder || kind == Kind::adapter_folder || kind == Kind::safetensors || kind == Kind::gguf ||
      kind == Kind::pytorch) {
    return "give a checkpoint of sft; sft-convert makes one of a model folder";
  }
  return "give a checkpoint such as output/checkpoint-000100, or the output folder of a run";
}

std::string advice_for_model(Kind kind, const std::string& path) {
  switch (kind) {
    case Kind::config_json:
    case Kind::safetensors:
    case Kind::hdf5: {
      const std::string folder = fs::path(path).parent_path().string();
      return "give the folder that it lies in, " + (folder.empty() ? "." : folder);
    }
    case Kind::zip:
      return fmt::format("unpack it first, `unzip {}`, and give the folder", path);
    case Kind::pytorch:
    case Kind::gguf:
      return "give a folder with config.json and safetensors; transformers' save_pretrained writes one";
    case Kind::adapter_folder:
      return fmt::format("give the model that it changes; `sft-convert --merge MODEL {} OUT_FOLDER` makes one of both",
                         path);
    case Kind::ini:
      return "give the output folder of the run, a checkpoint or a model folder";
    default:
      return "give a model folder, a checkpoint, or the output folder of a run";
  }
}

const char* name_of(Expected expected) {
  switch (expected) {
    case Expected::configuration:
      return "a configuration";
    case Expected::json_lines:
      return "JSON lines";
    case Expected::packed_shard:
      return "packed data";
    case Expected::checkpoint:
      return "a checkpoint";
    case Expected::model:
      return "a model";
  }
  return "";
}

std::string advice(Kind kind, Expected expected, const std::string& path) {
  if (kind == Kind::utf16) return fmt::format("save it as UTF-8: `iconv -f UTF-16 -t UTF-8 {} -o FILE`", path);
  if (kind == Kind::git_lfs) return "fetch the file itself: `git lfs pull` in the clone, or `hf download`";
  switch (expected) {
    case Expected::configuration:
      return advice_for_configuration(kind, path);
    case Expected::json_lines:
      return advice_for_json_lines(kind, path);
    case Expected::packed_shard:
      return advice_for_shard(kind, path);
    case Expected::checkpoint:
      return advice_for_checkpoint(kind);
    case Expected::model:
      return advice_for_model(kind, path);
  }
  return {};
}

}  // namespace

void require_kind(const std::string& path, Expected expected) {
  const Kind kind = kind_of(path);
  if (fits(kind, expected)) return;
  throw_data_error(fmt::format("cannot use {} as {}", path, name_of(expected)), describe(kind),
                   advice(kind, expected, path));
}

bool is_table(const std::string& path) {
  const Kind kind = kind_of(path);
  return kind == Kind::parquet || kind == Kind::arrow;
}

}  // namespace sft::io
