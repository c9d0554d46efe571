// SPDX-License-Identifier: Apache-2.0
#pragma once
// The adapter in a checkpoint, as that of a PEFT folder.

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "sft/io/tensor_source.hpp"

namespace sft::checkpoint {

/// The tensors of the entry "adapter" of a checkpoint, under "model/". Where adapters began with a part of the weights,
/// what they began with is a further part of each A and B: they are those of config::Lora::beside_whole_weights().
class AdapterSource final : public io::TensorSource {
 public:
  /// A data Error where the checkpoint cannot be read.
  explicit AdapterSource(const std::string& folder);

  [[nodiscard]] const std::string& path() const override { return checkpoint_->path(); }
  [[nodiscard]] std::vector<io::TensorInfo> tensors() const override { return tensors_; }
  void read(const std::string& name, const io::Rectangle& where, DType dtype, void* values) const override;

 private:
  /// A tensor of the checkpoint in one of this source.
  struct Part {
    std::string held;
    std::int64_t row_begin, column_begin, num_rows, num_columns;
  };

  std::unique_ptr<io::TensorSource> checkpoint_;
  std::vector<io::TensorInfo> tensors_;
  std::map<std::string, std::vector<Part>> parts_;  ///< by name
};

}  // namespace sft::checkpoint
