// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whole tensors as virtual HDF5 datasets over the shard files: in checkpoint.h5 of format version 1, and in tensors.h5
// beside a checkpoint.h5 of version 2, which sft itself does not read.

#include <string>
#include <vector>

#include "file_map.hpp"
#include "sft/io/hdf5.hpp"
#include "sft/io/tensor_source.hpp"

namespace sft::checkpoint {

/// Those of a checkpoint of format version 1.
class IndexSource final : public io::TensorSource {
 public:
  /// `index`: of open_index(). Whether its shard files are there is not asked here.
  explicit IndexSource(io::Hdf5File index) : index_(std::move(index)) {}

  [[nodiscard]] const std::string& path() const override { return index_.path(); }
  [[nodiscard]] std::vector<io::TensorInfo> tensors() const override;
  /// Gives float32, bf16, and uint8 of what is stored as such. Refuses a tensor one of whose shard files cannot be
  /// opened.
  void read(const std::string& name, const io::Rectangle& where, DType dtype, void* values) const override;

  [[nodiscard]] const io::Hdf5File& index() const { return index_; }

 private:
  io::Hdf5File index_;
};

/// Whether the tensors have so few pieces in the files that their virtual datasets are made in some milliseconds, and
/// in index_memory_bytes().
[[nodiscard]] bool has_few_pieces(const FileMap& map);

/// Writes FOLDER/tensors.h5, a virtual dataset /ENTRY/PARAMETER for every tensor, in place of one that is there.
void write_tensor_index(const std::string& folder, const FileMap& map);

}  // namespace sft::checkpoint
