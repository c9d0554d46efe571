// SPDX-License-Identifier: Apache-2.0
#include "known_kinds.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <vector>

namespace sft::io {

namespace fs = std::filesystem;

namespace {

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

std::string read_start(const std::string& path) {
  constexpr std::size_t num_bytes = 1 << 14;
  std::string start(num_bytes, '\0');
  std::ifstream file(path, std::ios::binary);
  file.read(start.data(), static_cast<std::streamsize>(num_bytes));
  start.resize(file.gcount());
  return start;
}

/// Sets of records that have an index: MDS of MosaicML Streaming, litdata.
Kind kind_of_index(const fs::path& file) {
  const std::string start = read_start(file.string());
  if (start.find("\"shards\"") != std::string::npos) return Kind::mds;
  const bool has_chunks = start.find("\"chunks\"") != std::string::npos;
  return has_chunks ? Kind::litdata : Kind::unknown;
}

/// A config.json may also be that of a tool for data.
bool is_of_model(const fs::path& config) {
  const std::string start = read_start(config.string());
  return start.find("\"model_type\"") != std::string::npos || start.find("\"architectures\"") != std::string::npos;
}

Kind kind_of_folder(const fs::path& folder) {
  if (holds_any(folder, {"checkpoint.h5"})) return Kind::checkpoint_folder;
  if (holds_any(folder, {"adapter_config.json"})) return Kind::adapter_folder;
  if (holds_any(folder, {"tokenizer.json", "tokenizer_config.json", "model.safetensors"}) ||
      is_of_model(folder / "config.json")) {
    return Kind::hub_folder;
  }
  if (holds_any(folder, {"_versions"}) && holds_any(folder, {"data", "_latest.manifest"})) return Kind::lance;
  if (const Kind kind = kind_of_index(folder / "index.json"); kind != Kind::unknown) return kind;
  if (holds_any(folder, {"dataset_info.json", "dataset_dict.json"})) return Kind::dataset_folder;
  if (holds_any(folder, {"resolved.ini", "metrics.jsonl"}) || holds_file_like(folder, "checkpoint-", "")) {
    return Kind::output_folder;
  }
  return holds_file_like(folder, "train-", ".h5") ? Kind::shard_folder : Kind::folder;
}

/// LZ4 and Zstandard have frames without data.
bool is_skippable_frame(const std::string& start) {
  return start.size() >= 4 && (start[0] & 0xF0) == 0x50 && start.compare(1, 3, "\x2a\x4d\x18") == 0;
}

struct Magic {
  std::string_view bytes;
  Kind kind;
};
using std::string_view_literals::operator""sv;
constexpr std::array magics{Magic{"PAR1", Kind::parquet},
                            Magic{"ARROW1", Kind::arrow},
                            Magic{"\xff\xff\xff\xff", Kind::arrow},
                            Magic{"FEA1", Kind::feather},
                            Magic{"\x1f\x8b", Kind::compressed},
                            Magic{"\x28\xb5\x2f\xfd", Kind::compressed},
                            Magic{"BZh", Kind::bzip2},
                            Magic{"\xfd"
                                  "7zXZ",
                                  Kind::xz},
                            Magic{"\x04\x22\x4d\x18", Kind::lz4},
                            Magic{"\x80\x02", Kind::pytorch},
                            Magic{"\x80\x03", Kind::pickle},
                            Magic{"\x80\x04", Kind::pickle},
                            Magic{"\x80\x05", Kind::pickle},
                            Magic{"\x93NUMPY", Kind::numpy},
                            Magic{"SQLite format 3\0"sv, Kind::sqlite},
                            Magic{"Obj\x01", Kind::avro},
                            Magic{"ORC", Kind::orc},
                            Magic{"MMIDIDX\0\0"sv, Kind::megatron},
                            Magic{"GGUF", Kind::gguf},
                            Magic{"version https://git-lfs.github.com/spec/", Kind::git_lfs},
                            Magic{"\xff\xfe", Kind::utf16},
                            Magic{"\xfe\xff", Kind::utf16}};

Kind kind_of_zip(const std::string& start) {
  const auto holds = [&](const char* name) { return start.find(name) != std::string::npos; };
  if (holds("data.pkl")) return Kind::pytorch;  // torch.save writes archives
  return holds(".npy") ? Kind::numpy : Kind::zip;
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

/// By names alone, of formats that begin in no way of their own.
Kind kind_of_name(const fs::path& path) {
  const std::string name = path.filename().string(), extension = path.extension().string();
  for (const char* packed_tar : {".tar", ".tar.gz", ".tgz", ".tar.zst", ".tar.bz2", ".tar.xz"}) {
    if (name.ends_with(packed_tar)) return Kind::tar;
  }
  if (extension == ".csv" || extension == ".tsv") return Kind::csv;
  if (extension == ".mds") return Kind::mds;
  if (extension == ".lance") return Kind::lance;
  std::error_code ignored;
  if (extension == ".bin" && fs::exists(fs::path(path).replace_extension(".idx"), ignored)) return Kind::megatron;
  if (extension == ".bin" && fs::exists(path.parent_path() / "index.json", ignored)) {
    return kind_of_index(path.parent_path() / "index.json");
  }
  return name == "index.json" ? kind_of_index(path) : Kind::unknown;
}

Kind kind_of_text(const fs::path& path, std::string_view start) {
  const std::string extension = path.extension().string();
  const std::size_t first = start.find_first_not_of(" \t\r\n");
  if (first == std::string_view::npos) return Kind::unknown;
  const std::string_view text = start.substr(first);
  if (text.front() == '<') return Kind::markup;
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

}  // namespace

Kind kind_of_bytes(const std::string& start) {
  constexpr std::string_view hdf5 = "\x89HDF\r\n\x1a\n";
  for (std::size_t offset = 0; offset + hdf5.size() <= start.size(); offset = offset == 0 ? 512 : 2 * offset) {
    if (start.compare(offset, hdf5.size(), hdf5) == 0) return Kind::hdf5;  // behind a user block, too
  }
  if (start.starts_with("PK\x03\x04") || start.starts_with("PK\x05\x06")) return kind_of_zip(start);
  for (const Magic& magic : magics) {
    if (start.starts_with(magic.bytes)) return magic.kind;
  }
  if (is_skippable_frame(start)) return Kind::compressed;
  constexpr std::size_t tar_magic = 257;
  if (start.size() > tar_magic && start.compare(tar_magic, 5, "ustar") == 0) return Kind::tar;
  const bool has_header = start.size() > 9 && start[8] == '{' && start.substr(4, 4) == std::string(4, '\0');
  return has_header ? Kind::safetensors : Kind::unknown;
}

Kind kind_of(const std::string& path) {
  std::error_code error;
  const fs::file_status status = fs::status(path, error);
  if (error || !fs::exists(status)) return Kind::unknown;
  if (fs::is_directory(status)) return kind_of_folder(path);
  if (!fs::is_regular_file(status)) return Kind::unknown;
  if (const Kind kind = kind_of_name(path); kind != Kind::unknown) return kind;
  const std::string start = read_start(path);
  const Kind kind = kind_of_bytes(start);
  return kind == Kind::unknown ? kind_of_text(path, start) : kind;
}

}  // namespace sft::io
