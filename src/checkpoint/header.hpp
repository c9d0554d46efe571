// SPDX-License-Identifier: Apache-2.0
#pragma once
// The attributes of checkpoint.h5.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/io/hdf5.hpp"

namespace sft::checkpoint {

/// A file with pieces of the tensors, as checkpoint.h5 lists it.
struct ShardFile {
  std::string name;
  std::int64_t size_bytes = 0;
  std::string checksum;
};

/// One line per shard file: "shard-00000.h5 4096 crc32:89abcdef".
[[nodiscard]] std::string to_text(const ShardFile& file);
/// Reads lines of to_text; `source` names them in errors.
[[nodiscard]] std::vector<ShardFile> parse_shard_files(const std::string& text, const std::string& source);

/// Returns the date that it writes: now, but always after position.date.
std::string write_attributes(io::Hdf5File& index, const config::Config& config, const std::string& tokenizer,
                             const std::string& mesh, const Position& position, const std::vector<ShardFile>& files);

/// The date a microsecond after `date`, both as Header has them; empty for a text of another form.
[[nodiscard]] std::string following_date(const std::string& date);

/// Opens checkpoint.h5 of a complete checkpoint; refuses other formats and versions.
[[nodiscard]] io::Hdf5File open_index(const std::string& folder);
[[nodiscard]] Position read_position(const io::Hdf5File& index);
[[nodiscard]] std::vector<ShardFile> read_shard_files(const io::Hdf5File& index);

}  // namespace sft::checkpoint
