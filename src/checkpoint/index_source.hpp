// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tensors of checkpoint.h5 as a source.

#include <string>
#include <vector>

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

}  // namespace sft::checkpoint
