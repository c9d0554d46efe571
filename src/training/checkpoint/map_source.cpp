// SPDX-License-Identifier: Apache-2.0
#include "map_source.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cstring>
#include <exception>
#include <span>

#include "folder.hpp"
#include "header.hpp"
#include "index_tensors.hpp"
#include "rectangles.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "shard_file.hpp"

namespace sft::checkpoint {

namespace {

/// `count` stored numbers as those of `dtype`.
void convert(const char* stored, DType stored_dtype, std::int64_t count, DType dtype, char* values) {
  if (stored_dtype == dtype) {
    std::memcpy(values, stored, count * size_of(dtype));
  } else if (stored_dtype == DType::uint8) {
    SFT_ENSURE(dtype == DType::float32, "codes are read as they are, or as float32");
    std::transform(stored, stored + count, reinterpret_cast<float*>(values),
                   [](char code) { return static_cast<float>(static_cast<unsigned char>(code)); });
  } else {
    std::vector<float> scratch;
    const std::size_t size = count;
    io::convert(std::span(io::as_float32(stored, stored_dtype, size, scratch), size), dtype, values);
  }
}

}  // namespace

MapSource::MapSource(const std::string& folder, FileMap map)
    : path_(index_path(folder)), map_(std::move(map)), regions_(folder, map_) {
  try {
    for (std::size_t entry = 0; entry < map_.entries.size(); ++entry) {
      parts_.emplace_back(map_, map_.entries[entry]);
      for (std::size_t i = 0; i < map_.entries[entry].tensors.size(); ++i) {
        tensors_.emplace(map_.entries[entry].tensors[i].name, EntryTensor{entry, static_cast<int>(i)});
      }
    }
  } catch (const std::exception& error) {
    throw_data_error(fmt::format("cannot use the map in {}", path_), error.what(), "use another checkpoint");
  }
}

std::vector<io::TensorInfo> MapSource::tensors() const {
  std::vector<io::TensorInfo> tensors;
  std::ptrdiff_t first = 0;  // of those of an entry's name
  for (std::size_t i = 0; i < map_.entries.size(); ++i) {
    const MappedEntry& entry = map_.entries[i];
    if (i > 0 && map_.entries[i - 1].name != entry.name) first = std::ssize(tensors);
    tensors.insert(tensors.end(), entry.tensors.begin(), entry.tensors.end());
    std::sort(tensors.begin() + first, tensors.end(), [](const io::TensorInfo& left, const io::TensorInfo& right) {
      return ::strverscmp(left.name.c_str(), right.name.c_str()) < 0;  // layers.2 before layers.10
    });
  }
  return tensors;
}

const char* MapSource::read_sequence(std::size_t entry, int owner, std::int64_t begin, std::int64_t count) const {
  EntryParts& parts = parts_[entry];
  const std::size_t element_bytes = size_of(map_.entries[entry].dtype);
  const std::int64_t size = parts.shard(owner).num_elements;
  const std::int64_t most = region_of(size, parts.num_replicas(), 0).count;
  bytes_.resize(count * element_bytes);
  for (std::int64_t at = begin; at < begin + count;) {
    const std::int64_t replica = at / most;
    const std::int64_t end = std::min(begin + count, (replica + 1) * most);
    regions_.read(parts.replica(owner, static_cast<int>(replica)), entry, at - replica * most, end - at,
                  bytes_.data() + (at - begin) * element_bytes);
    at = end;
  }
  return bytes_.data();
}

void MapSource::read_part(std::size_t entry, int owner, const FilePart& part, const io::Rectangle& common,
                          const Target& target) const {
  constexpr std::int64_t most_unused = 4;  // elements read for one that is wanted, in place of many short reads
  const DType stored = map_.entries[entry].dtype;
  const std::int64_t width = part.where.num_columns;
  const std::int64_t first =
      part.position + (common.row_begin - part.where.row_begin) * width + common.column_begin - part.where.column_begin;
  const auto put = [&](std::int64_t row, const char* from) {
    const std::int64_t to = (common.row_begin - target.where.row_begin + row) * target.where.num_columns +
                            common.column_begin - target.where.column_begin;
    convert(from, stored, common.num_columns, target.dtype, target.values + to * size_of(target.dtype));
  };
  const std::int64_t span = (common.num_rows - 1) * width + common.num_columns;
  if (span <= most_unused * common.num_elements()) {
    const char* bytes = read_sequence(entry, owner, first, span);
    for (std::int64_t row = 0; row < common.num_rows; ++row) {
      put(row, bytes + row * width * size_of(stored));
    }
    return;
  }
  for (std::int64_t row = 0; row < common.num_rows; ++row) {
    put(row, read_sequence(entry, owner, first + row * width, common.num_columns));
  }
}

void MapSource::read(const std::string& name, const io::Rectangle& where, DType dtype, void* values) const {
  const auto found = tensors_.find(name);
  SFT_ENSURE(found != tensors_.end(), "a tensor that is read is there");
  const auto [entry, tensor] = found->second;
  const Target target{where, dtype, static_cast<char*>(values)};
  std::int64_t num_found = 0;
  for (const int owner : parts_[entry].owners_of(tensor, where)) {
    const EntryParts::Shard& shard = parts_[entry].shard(owner);
    for (const std::size_t number : shard.of_tensor(tensor)) {
      const io::Rectangle common = intersection(shard.parts[number].where, where);
      if (common.num_elements() == 0) continue;
      read_part(entry, owner, shard.parts[number], common, target);
      num_found += common.num_elements();
    }
  }
  if (num_found != where.num_elements()) {
    throw_data_error(fmt::format("cannot read {} of {}", name, path_),
                     fmt::format("its map has {} of {} elements that are asked for", num_found, where.num_elements()),
                     "use another checkpoint");
  }
}

std::unique_ptr<io::TensorSource> open_source(const std::string& folder) {
  io::Hdf5File index = open_index(folder);
  const std::vector<ShardFile> files = read_shard_files(index);
  if (read_format_version(index) == 1) {
    for (const ShardFile& file : files) check_presence(folder, file);
    return std::make_unique<IndexSource>(std::move(index));
  }
  for (const ShardFile& file : files) check_size(folder, file);
  return std::make_unique<MapSource>(folder, read_file_map(index));
}

std::string write_tensor_index(const std::string& folder) {
  const io::Hdf5File index = open_index(folder);
  if (read_format_version(index) == 1) return index.path();
  write_tensor_index(folder, read_file_map(index));
  return tensor_index_path(folder);
}

}  // namespace sft::checkpoint
