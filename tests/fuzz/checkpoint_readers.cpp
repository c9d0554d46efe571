// SPDX-License-Identifier: Apache-2.0
// Checkpoints: the file that leads, the map in it, and the texts of its attributes.
#include <algorithm>
#include <memory>

#include "checkpoint/file_map.hpp"
#include "checkpoint/header.hpp"
#include "checkpoint/map_source.hpp"
#include "readers.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/checkpoint/lineage.hpp"

namespace sft::fuzz {

namespace {

constexpr std::size_t shard_bytes = std::size_t{1} << 20;

/// checkpoint.h5 beside a shard file of zeros.
void read_checkpoint(const std::string& bytes) {
  static const std::string shard = put_file("checkpoint-000001", "shard-00000.h5", std::string(shard_bytes, '\0'));
  const std::string folder = put_file("checkpoint-000001", "checkpoint.h5", bytes);
  (void)checkpoint::read_header(folder);
  read_tensors(*checkpoint::open_source(folder));
}

/// The attribute `map`, over two shard files of zeros.
void read_map(const std::string& bytes) {
  std::vector<checkpoint::ShardFile> files;
  for (const std::string name : {"shard-00000.h5", "shard-00001.h5"}) {
    static_cast<void>(put_file("map", name, std::string(shard_bytes, '\0')));
    files.push_back({.name = name, .size_bytes = shard_bytes, .checksum = "xxh128:00000000000000000000000000000000"});
  }
  read_tensors(checkpoint::MapSource(scratch().file("map"), checkpoint::parse_file_map(bytes, files, "map")));
}

/// The other attributes that are texts with a form of their own: which one, its first byte says.
void read_attribute(const std::string& bytes) {
  if (bytes.empty()) return;
  const std::string text = bytes.substr(1);
  switch (static_cast<unsigned char>(bytes[0]) % 4) {
    case 0:
      for (const auto& file : checkpoint::parse_shard_files(text, "shards")) (void)checkpoint::to_text(file);
      return;
    case 1:
      (void)checkpoint::text_of(checkpoint::parse_writers(text, "writers"));
      return;
    case 2:
      (void)checkpoint::to_text(checkpoint::parse_ancestors(text, "ancestors"));
      return;
    default:
      (void)checkpoint::following_date(text);
  }
}

}  // namespace

std::vector<Reader> checkpoint_readers() {
  return {{"checkpoint", read_checkpoint}, {"checkpoint_map", read_map}, {"checkpoint_attribute", read_attribute}};
}

}  // namespace sft::fuzz
