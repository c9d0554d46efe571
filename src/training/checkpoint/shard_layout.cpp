// SPDX-License-Identifier: Apache-2.0
#include "shard_layout.hpp"

#include <algorithm>
#include <filesystem>
#include <map>

#include "folder.hpp"
#include "sft/core/ensure.hpp"
#include "sft/io/hash.hpp"
#include "sft/io/superblock.hpp"

namespace sft::checkpoint {

io::Number number_of(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return io::Number::bfloat16;
    case DType::uint8:
      return io::Number::uint8;
    default:
      SFT_ENSURE(dtype == DType::float32, "state is float32, bf16 or uint8");
      return io::Number::float32;
  }
}

FileGroups group_files(const std::vector<std::string>& hosts, const std::vector<bool>& writes,
                       std::int64_t files_per_node) {
  std::map<std::string, std::vector<int>> writers;  // by node
  for (std::size_t rank = 0; rank < hosts.size(); ++rank) {
    if (writes[rank]) writers[hosts[rank]].push_back(static_cast<int>(rank));
  }
  FileGroups groups;
  for (const auto& [host, ranks] : writers) {
    const std::size_t most = files_per_node > 0 ? files_per_node : ranks.size();
    const std::size_t num_files = std::min(most, ranks.size());
    for (std::size_t file = 0; file < num_files; ++file) {
      const auto begin = ranks.begin() + static_cast<std::ptrdiff_t>(file * ranks.size() / num_files);
      const auto end = ranks.begin() + static_cast<std::ptrdiff_t>((file + 1) * ranks.size() / num_files);
      groups.members.emplace_back(begin, end);
    }
  }
  std::ranges::sort(groups.members);
  groups.file_of_rank.assign(hosts.size(), -1);
  for (std::size_t file = 0; file < groups.members.size(); ++file) {
    for (const int rank : groups.members[file]) {
      groups.file_of_rank[rank] = static_cast<int>(file);
    }
  }
  return groups;
}

LaidOutFile lay_out(const std::string& folder, const std::string& name, const std::vector<EntryType>& entries,
                    const std::vector<std::int64_t>& num_elements) {
  const std::string path = (std::filesystem::path(folder) / name).string();
  LaidOutFile made;
  std::vector<ByteRange> regions;
  io::Hdf5File file = io::Hdf5File::create_aligned(path);
  for (std::size_t i = 0; i < entries.size(); ++i) {
    made.begins.push_back(
        file.create_flat_dataset("/" + entries[i].name, number_of(entries[i].dtype), num_elements[i]));
    regions.push_back({made.begins.back(), static_cast<std::uint64_t>(num_elements[i]) * size_of(entries[i].dtype)});
  }
  file.close();
  made.file = {name, static_cast<std::int64_t>(std::filesystem::file_size(path)),
               hash_around(io::RawFile::open(path), regions)};
  return made;
}

std::string hash_around(const io::RawFile& file, std::vector<ByteRange> regions) {
  std::ranges::sort(regions, {}, &ByteRange::begin);
  io::ContentHash hash;
  std::vector<char> bytes;
  std::uint64_t at = 0;
  const auto add_up_to = [&](std::uint64_t end) {
    constexpr std::uint64_t most = std::uint64_t{1} << 20;
    while (at < end) {
      bytes.resize(std::min(end - at, most));
      file.read(at, bytes.size(), bytes.data());
      if (at == 0) io::clear_writer_marks(bytes.data(), bytes.size());
      hash.add(bytes.data(), bytes.size());
      at += bytes.size();
    }
  };
  for (const ByteRange& region : regions) {
    if (region.count == 0) continue;
    add_up_to(region.begin);
    at = std::max(at, region.begin + region.count);
  }
  add_up_to(file.size_bytes());
  return hash.text();
}

}  // namespace sft::checkpoint
