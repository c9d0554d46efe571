// SPDX-License-Identifier: Apache-2.0
#pragma once
// Looking at tensors in storage without a mesh: for tools. Nothing here is collective, and no more than a few rows of a
// tensor are in memory at a time.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/io/tensor_source.hpp"

namespace sft::checkpoint {

struct Statistics {
  double norm = 0.0;            ///< root of the sum of squares, NaN where a value is
  double min = 0.0, max = 0.0;  ///< of the values that are numbers; 0 when there is none
  std::int64_t num_nan = 0;
};

/// Statistics of one of source.tensors().
[[nodiscard]] Statistics measure(const io::TensorSource& source, const io::TensorInfo& tensor);

/// How far two tensors of one shape, a and b, are apart. Two values that are both NaN do not differ.
struct Difference {
  double max_abs = 0.0;            ///< largest |a - b|; NaN where one of two values is
  double norm = 0.0;               ///< of a - b
  double before_norm = 0.0;        ///< of a
  std::int64_t num_different = 0;  ///< elements

  /// norm / before_norm; 0 when they are equal.
  [[nodiscard]] double relative() const { return num_different > 0 ? norm / before_norm : 0.0; }
};

/// Compares one of source.tensors() with one of other.tensors(); refuses one of another shape.
[[nodiscard]] Difference compare(const io::TensorSource& source, const io::TensorInfo& tensor,
                                 const io::TensorSource& other, const io::TensorInfo& other_tensor);

struct ShardFileInfo {
  std::string name;
  std::int64_t size_bytes = 0;
};
/// The shard files of a checkpoint, as its checkpoint.h5 lists them.
[[nodiscard]] std::vector<ShardFileInfo> list_shard_files(const std::string& folder);

/// Reads every shard file of a checkpoint and compares its size and checksums; what is damaged first is a data Error
/// that names it.
void verify(const std::string& folder);

}  // namespace sft::checkpoint
