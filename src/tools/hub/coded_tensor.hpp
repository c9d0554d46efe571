// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrices that files hold as codes with scales, which lie in tensors of their own.

#include <cstdint>
#include <optional>
#include <string>

#include "sft/core/four_bits.hpp"
#include "sft/hub/weights.hpp"

namespace sft::hub {

class FolderTensors;
struct Quantization;

/// Its numbers, which are made as they are asked for. Reads are safe from several threads.
class CodedTensor {
 public:
  virtual ~CodedTensor() = default;
  /// Type that its values are rounded to; float32: not at all.
  [[nodiscard]] virtual WeightType type() const = 0;
  /// Reads the numbers [first, first + count), row-major, rounded.
  virtual void read(std::int64_t first, std::int64_t count, float* values) const = 0;
  /// The form in which its codes can be kept, if it is in 4 bits and has one; then four_bits() has all of them.
  [[nodiscard]] virtual std::optional<FourBitForm> form() const { return std::nullopt; }
  [[nodiscard]] virtual FourBitMatrix four_bits() const;
  /// Whether it is in the 4 bits of bitsandbytes.
  [[nodiscard]] virtual bool is_in_four_bits() const { return false; }
};

/// Each puts the matrices of its form in the place of the tensors that they are stored as. A data Error names the
/// tensor that cannot be read.
void join_four_bits(FolderTensors& tensors);
void join_mxfp4(FolderTensors& tensors);
/// Matrices of FP8; what else such folders hold of the scales of activations and caches is left out. `quantization`:
/// what config.json says.
void join_fp8(FolderTensors& tensors, const Quantization& quantization);

}  // namespace sft::hub
