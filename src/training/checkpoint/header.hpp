// SPDX-License-Identifier: Apache-2.0
#pragma once
// checkpoint.h5: its attributes, and when it is written.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/io/hdf5.hpp"

namespace sft::checkpoint {

struct FileMap;

/// The newest version of the format, which is written; all from 1 on are read.
inline constexpr std::int64_t newest_format_version = 2;

/// A file with pieces of the tensors, as checkpoint.h5 lists it.
struct ShardFile {
  std::string name;
  std::int64_t size_bytes = 0;
  std::string checksum;  ///< version 1: "crc32:..." of the file; version 2: "xxh128:..." of what is in no region
};

/// One line per shard file: "shard-00000.h5 4096 xxh128:...".
[[nodiscard]] std::string to_text(const ShardFile& file);
/// Reads lines of to_text; `source` names them in errors.
[[nodiscard]] std::vector<ShardFile> parse_shard_files(const std::string& text, const std::string& source);

/// Writes checkpoint.h5 into a folder whose shard files are there, sealed and synced, and tensors.h5 where that takes
/// only a moment: the last of a checkpoint. Returns the date that it writes. Not collective.
std::string write_map(const std::string& folder, const config::Config& config, const std::string& tokenizer,
                      const Position& position, const FileMap& map);
/// Returns the date that it writes: now, but always after position.date.
std::string write_attributes(io::Hdf5File& index, const config::Config& config, const std::string& tokenizer,
                             const Position& position, const FileMap& map);

/// One line a writer, "STEP RUN_ID SFT_VERSION NUM_HOSTS MESH, batch ROWS"; "-" for a run without a name. Lines without
/// the batch are of earlier versions.
[[nodiscard]] std::string text_of(const std::vector<Writer>& writers);
/// Reads text_of(); a data Error names `source`.
[[nodiscard]] std::vector<Writer> parse_writers(const std::string& text, const std::string& source);

/// The date a microsecond after `date`, both as Header has them; empty for a text of another form.
[[nodiscard]] std::string following_date(const std::string& date);

/// Opens checkpoint.h5 of a complete checkpoint; refuses other formats and versions.
[[nodiscard]] io::Hdf5File open_index(const std::string& folder);
[[nodiscard]] std::int64_t read_format_version(const io::Hdf5File& index);
/// The attributes that are a Position.
void write_position(io::Hdf5File& index, const Position& position);
[[nodiscard]] Position read_position(const io::Hdf5File& index);
/// A Position as a text for other ranks, and back.
[[nodiscard]] std::string to_json_text(const Position& position);
[[nodiscard]] Position position_of_json(const std::string& text);
/// Of an index of format version 2.
[[nodiscard]] FileMap read_file_map(const io::Hdf5File& index);
[[nodiscard]] std::vector<ShardFile> read_shard_files(const io::Hdf5File& index);

}  // namespace sft::checkpoint
