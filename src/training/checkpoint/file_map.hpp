// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the numbers of a checkpoint of format version 2 lie in its shard files, from the mesh that wrote it and a few
// numbers per rank: neither tensors nor pieces are listed, for they follow from how the ranks cut parameters.
//
// The ranks that hold the same shard of an entry are its replicas; the one with replica number 0 is the shard's owner.
// What a shard has of an entry is a sequence of numbers: the parameters that it owns in the order of the cut, of each
// the elements that it holds, row-major. The replicas cut that sequence into regions (region_of), one each, and each
// region lies in one file without a gap.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "header.hpp"
#include "sft/core/axis.hpp"
#include "sft/core/dtype.hpp"
#include "sft/io/tensor_source.hpp"
#include "sft/mesh/layout.hpp"
#include "sft/parallel/shard_map.hpp"

namespace sft::checkpoint {

/// How the ranks cut parameters: what a parallel::ShardMap is made of.
struct Cut {
  AxisSet shard_axes;
  std::vector<parallel::Unit> units;  ///< of their parameters what the model gives

  [[nodiscard]] AxisSet slice_axes() const { return parallel::slice_axes_of(units); }
  /// The axes along which ranks hold the same shards.
  [[nodiscard]] AxisSet copy_axes() const { return every_axis.without(slice_axes()).without(shard_axes); }

  /// Whether both have the same parameters in the same units.
  [[nodiscard]] bool has_same_units(const Cut& other) const;
};

/// A rectangle of a tensor that lies in a shard's sequence without a gap, row-major.
struct FilePart {
  int tensor;                 ///< number in the entry
  io::Rectangle where;        ///< in the whole tensor
  std::int64_t position = 0;  ///< of its first element in the sequence
};

struct MappedEntry {
  std::string name;  ///< of its tensors; several entries of a name have tensors of different parts of the model
  DType dtype = DType::float32;  ///< as it is stored
  int cut = 0;
  std::vector<io::TensorInfo> tensors;  ///< in the order of the cut's parameters; their names begin with the entry's
  /// Whether the tensors are the parameters that they are named after, cut as these are.
  bool is_as_parameters = true;
  /// Of all others: what each owner has.
  std::map<int, std::vector<FilePart>> parts;
};

/// What a rank wrote of an entry.
struct StoredRegion {
  std::uint64_t begin = 0;  ///< byte of the file
  std::int64_t num_elements = 0;
  std::string hash;  ///< of its bytes (io::ContentHash), or zero_hash; "" where it has none
};

struct RankRegions {
  int file = -1;                      ///< number in FileMap::files; -1: the rank wrote nothing
  std::vector<StoredRegion> regions;  ///< by entry
};

/// The hash of a region that was never written: all its bytes are zero.
inline constexpr const char* zero_hash = "zeros";

struct FileMap {
  mesh::Layout layout;
  std::vector<Cut> cuts;
  std::vector<MappedEntry> entries;
  std::vector<ShardFile> files;    ///< the checksum is that of all bytes outside of regions
  std::vector<RankRegions> ranks;  ///< of every rank of the mesh
};

/// As JSON, without the files.
[[nodiscard]] std::string to_text(const FileMap& map);
/// Reads to_text(); a data Error names `source`.
[[nodiscard]] FileMap parse_file_map(const std::string& text, std::vector<ShardFile> files, const std::string& source);

/// Neighbouring numbers of a sequence.
struct Region {
  std::int64_t begin = 0, count = 0;
};
/// What replica `replica` of `num_replicas` writes of a sequence of `num_elements`: all about the same, in multiples of
/// 1024, so that little is not cut at all.
[[nodiscard]] Region region_of(std::int64_t num_elements, int num_replicas, int replica);

/// The rank that owns what `rank` holds: the first of those along `copy_axes`.
[[nodiscard]] int owner_of(const mesh::Layout& layout, const AxisSet& copy_axes, int rank);

/// What the datasets of entries with these names are called in shard files: by the name, of a second one by NAME.2.
[[nodiscard]] std::vector<std::string> dataset_names(const std::vector<std::string>& entries);

}  // namespace sft::checkpoint
