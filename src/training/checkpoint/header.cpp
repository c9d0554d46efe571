// SPDX-License-Identifier: Apache-2.0
#include "header.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <set>
#include <sstream>

#include "file_map.hpp"
#include "folder.hpp"
#include "index_tensors.hpp"
#include "sft/config/parse.hpp"
#include "sft/core/error.hpp"
#include "sft/core/program.hpp"
#include "sft/io/files.hpp"
#include "sft/io/seal.hpp"
#include "warn_once.hpp"

namespace sft::checkpoint {

namespace {

constexpr const char* format = "sft-checkpoint";
constexpr const char* before_batch = ", batch ";  // at the end of a writer's line

/// "2025-01-31T12:00:00.000000Z": texts of this form sort by time.
std::string date_text(std::time_t seconds, long microseconds) {
  std::tm parts{};
  ::gmtime_r(&seconds, &parts);
  char whole[32];
  std::strftime(whole, sizeof whole, "%Y-%m-%dT%H:%M:%S", &parts);
  char text[48];
  std::snprintf(text, sizeof text, "%s.%06luZ", whole, static_cast<unsigned long>(microseconds) % 1000000);
  return text;
}

std::string utc_now() {
  std::timespec now{};
  std::timespec_get(&now, TIME_UTC);
  return date_text(now.tv_sec, now.tv_nsec / 1000);
}

}  // namespace

std::string text_of(const std::vector<Writer>& writers) {
  std::string text;
  for (const Writer& writer : writers) {
    text += fmt::format("{} {} {} {} {}", writer.step, writer.run_id.empty() ? "-" : writer.run_id, writer.sft_version,
                        writer.num_hosts, writer.mesh);
    text += writer.batch_rows > 0 ? fmt::format("{}{}\n", before_batch, writer.batch_rows) : "\n";
  }
  return text;
}

std::vector<Writer> parse_writers(const std::string& text, const std::string& source) {
  std::vector<Writer> writers;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    Writer writer;
    words >> writer.step >> writer.run_id >> writer.sft_version >> writer.num_hosts >> std::ws;
    if (!words || !std::getline(words, writer.mesh)) {
      throw_data_error(fmt::format("cannot read who wrote {}", source), fmt::format("its line is \"{}\"", line),
                       "the file is damaged: use another checkpoint");
    }
    if (writer.run_id == "-") writer.run_id.clear();
    if (const std::size_t end = writer.mesh.find(before_batch); end != std::string::npos) {
      const char* const number = writer.mesh.c_str() + end + std::char_traits<char>::length(before_batch);
      writer.batch_rows = std::strtoll(number, nullptr, 10);
      writer.mesh.resize(end);
    }
    writers.push_back(std::move(writer));
  }
  return writers;
}

std::string to_text(const ShardFile& file) {
  return fmt::format("{} {} {}\n", file.name, file.size_bytes, file.checksum);
}

std::vector<ShardFile> parse_shard_files(const std::string& text, const std::string& source) {
  std::vector<ShardFile> files;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    ShardFile file;
    if (!(words >> file.name >> file.size_bytes >> file.checksum)) {
      throw_data_error(fmt::format("cannot read the list of shard files in {}", source),
                       fmt::format("its line is \"{}\"", line), "the file is damaged: use another checkpoint");
    }
    files.push_back(file);
  }
  return files;
}

std::string following_date(const std::string& date) {
  std::tm parts{};
  const char* rest = ::strptime(date.c_str(), "%Y-%m-%dT%H:%M:%S", &parts);
  long microseconds = 0;
  int length = 0;
  if (rest == nullptr || std::sscanf(rest, ".%6ldZ%n", &microseconds, &length) != 1 || rest[length] != '\0') return "";
  const std::time_t seconds = ::timegm(&parts);
  const bool is_full = ++microseconds == 1'000'000;
  const std::string next = date_text(seconds + (is_full ? 1 : 0), is_full ? 0 : microseconds);
  return date_text(seconds, microseconds - 1) == date ? next : "";
}

void add_writer(Position& position, const std::string& mesh, std::int64_t num_hosts, std::int64_t batch_rows) {
  const Writer now{.step = position.step,
                   .run_id = position.lineage.run_id,
                   .sft_version = version(),
                   .mesh = mesh,
                   .num_hosts = num_hosts,
                   .batch_rows = batch_rows};
  if (position.writers.empty() || !position.writers.back().is_like(now)) position.writers.push_back(now);
}

std::string write_attributes(io::Hdf5File& index, const config::Config& config, const std::string& tokenizer,
                             const Position& position, const FileMap& map) {
  std::string date = std::max(utc_now(), following_date(position.date));
  std::string file_lines;
  for (const ShardFile& file : map.files) file_lines += to_text(file);
  index.write_string("format", format);
  index.write_int("format_version", newest_format_version);
  Position dated = position;
  dated.date = date;
  write_position(index, dated);
  index.write_int("init_seed", static_cast<std::int64_t>(config.model.init_seed));
  index.write_int("data_seed", static_cast<std::int64_t>(config.data.seed));
  index.write_int("train_seed", static_cast<std::int64_t>(config.train.seed));
  index.write_string("config", config::to_ini(config));
  index.write_string("mesh", map.layout.describe());
  index.write_string("tokenizer", tokenizer);
  index.write_string("sft_version", version());
  index.write_string("shards", file_lines);
  index.write_string("map", to_text(map));
  return date;
}

std::string write_map(const std::string& folder, const config::Config& config, const std::string& tokenizer,
                      const Position& position, const FileMap& map) {
  const std::string path = index_path(folder);
  io::Hdf5File index = io::Hdf5File::create(path, io::seal_bytes);
  std::string date = write_attributes(index, config, tokenizer, position, map);
  const std::string tensors = std::filesystem::path(tensor_index_path(folder)).filename().string();
  std::set<std::string> names;
  for (const MappedEntry& entry : map.entries) {
    if (names.insert(entry.name).second) index.link_group("/" + entry.name, tensors);
  }
  index.close();
  io::seal(path);
  io::sync_path(path);
  if (has_few_pieces(map)) write_tensor_index(folder, map);
  return date;
}

io::Hdf5File open_index(const std::string& folder) {
  const std::string path = index_path(folder);
  if (!std::filesystem::exists(path)) {
    throw_data_error(folder + " is no complete checkpoint", "it holds no checkpoint.h5",
                     "give a folder such as output/checkpoint-000100");
  }
  io::check_seal(path);
  io::Hdf5File index = io::Hdf5File::open(path, io::Sources::same_folder);
  if (!index.warning().empty()) warn_once(index.warning());
  const std::string found = index.has_attribute("format") ? index.read_string("format") : "";
  if (found != format) {
    throw_data_error(path + " is no checkpoint", "its format is \"" + found + "\", not \"" + format + "\"",
                     "give a checkpoint folder");
  }
  const std::int64_t found_version = read_format_version(index);
  if (found_version < 1 || found_version > newest_format_version) {
    throw_data_error(
        fmt::format("cannot read {}", path),
        fmt::format("its format_version is {}, this program reads 1 to {}", found_version, newest_format_version),
        fmt::format("use the version of sft that wrote it, not {}", version()));
  }
  return index;
}

std::int64_t read_format_version(const io::Hdf5File& index) { return index.read_int("format_version"); }

FileMap read_file_map(const io::Hdf5File& index) {
  return parse_file_map(index.read_string("map"), read_shard_files(index), index.path());
}

std::vector<ShardFile> read_shard_files(const io::Hdf5File& index) {
  return parse_shard_files(index.read_string("shards"), index.path());
}

Header read_header(const std::string& folder) {
  const io::Hdf5File index = open_index(folder);
  return {.config_ini = index.read_string("config"),
          .tokenizer = index.read_string("tokenizer"),
          .mesh = index.read_string("mesh"),
          .position = read_position(index),
          .sft_version = index.read_string("sft_version"),
          .format_version = read_format_version(index),
          .date = index.read_string("date")};
}

}  // namespace sft::checkpoint
