// SPDX-License-Identifier: Apache-2.0
#pragma once
// The whole tensors of a checkpoint of format version 2, read from its shard files by its map.

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "entry_parts.hpp"
#include "file_map.hpp"
#include "region_reader.hpp"
#include "sft/io/tensor_source.hpp"

namespace sft::checkpoint {

class MapSource final : public io::TensorSource {
 public:
  /// Opens nothing yet. A data Error where the map contradicts itself.
  MapSource(const std::string& folder, FileMap map);

  /// checkpoint.h5
  [[nodiscard]] const std::string& path() const override { return path_; }
  [[nodiscard]] std::vector<io::TensorInfo> tensors() const override;
  /// Gives float32, bf16, and uint8 of what is stored as such. For one thread.
  void read(const std::string& name, const io::Rectangle& where, DType dtype, void* values) const override;

  [[nodiscard]] const FileMap& map() const { return map_; }
  /// Of all reads; for those of other bytes, too.
  [[nodiscard]] RegionReader& regions() const { return regions_; }
  [[nodiscard]] EntryParts& parts(std::size_t entry) const { return parts_[entry]; }

 private:
  struct EntryTensor {
    std::size_t entry;
    int tensor;
  };
  struct Target {
    const io::Rectangle& where;
    DType dtype;
    char* values;
  };
  /// Elements [begin, begin + count) of the sequence of an owner's shard.
  const char* read_sequence(std::size_t entry, int owner, std::int64_t begin, std::int64_t count) const;
  void read_part(std::size_t entry, int owner, const FilePart& part, const io::Rectangle& common,
                 const Target& target) const;

  std::string path_;
  FileMap map_;
  std::unordered_map<std::string, EntryTensor> tensors_;
  mutable RegionReader regions_;
  mutable std::vector<EntryParts> parts_;  ///< by entry
  mutable std::vector<char> bytes_;
};

}  // namespace sft::checkpoint
