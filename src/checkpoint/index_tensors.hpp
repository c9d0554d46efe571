// SPDX-License-Identifier: Apache-2.0
#pragma once
// The whole tensors of checkpoint.h5, virtual datasets over the shard files of all ranks: written, and as a source.

#include <string>
#include <vector>

#include "sft/checkpoint/state.hpp"
#include "sft/io/hdf5.hpp"
#include "sft/io/tensor_source.hpp"

namespace sft::checkpoint {

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

/// Adds a virtual dataset /ENTRY/PARAMETER to the closed `index_file` for every tensor of the entries, over the shard
/// files that the ranks of the first replica wrote beside it. The entries are those of any rank of the mesh.
void write_index_tensors(const std::string& index_file, const std::vector<Entry>& entries);

}  // namespace sft::checkpoint
