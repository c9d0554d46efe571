// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrices in 4 bits as bitsandbytes makes them: codes (four_bit_codes.hpp) and a scale for each block of them. With
// double quantization ("nested") scales are codes themselves: those of scale - offset, where the offset is the mean of
// the matrix, in the dynamic code of 8 bits (block_codes.hpp), whose blocks have float32 scales.

#include <cstdint>
#include <span>
#include <vector>

#include "sft/core/four_bit_codes.hpp"

namespace sft {

enum class FourBitType : std::uint8_t { nf4, fp4 };

/// How the matrices of a model are kept in 4 bits.
struct FourBitForm {
  FourBitType type = FourBitType::nf4;
  bool is_nested = false;

  bool operator==(const FourBitForm&) const = default;

  /// The numbers of the 16 codes.
  [[nodiscard]] const float* values() const { return type == FourBitType::nf4 ? nf4_values : fp4_values; }
  /// Bytes of a block: its codes, and its float32 scale or the code of that.
  [[nodiscard]] constexpr std::int64_t record_bytes() const { return four_bit_code_bytes + (is_nested ? 1 : 4); }
  /// float32 numbers beside the blocks of a matrix of `elements`: the offset, and scales of scales; or none.
  [[nodiscard]] constexpr std::int64_t num_nested(std::int64_t elements) const {
    constexpr std::int64_t run = four_bit_block * nested_scale_block;
    return is_nested ? 1 + (elements + run - 1) / run : 0;
  }
};

/// A matrix, row-major, whose rows are whole blocks.
struct FourBitMatrix {
  FourBitForm form;
  std::vector<std::uint8_t> codes;        ///< two a byte, the first one in the upper bits
  std::vector<float> scales;              ///< of blocks; none where they are nested
  std::vector<std::uint8_t> scale_codes;  ///< of blocks, where they are nested
  std::vector<float> nested;              ///< FourBitForm::num_nested: the offset first

  /// Writes block number `block` as it lies in memory, record_bytes long.
  void write_record(std::int64_t block, std::uint8_t* record) const;
};

/// Makes matrices in 4 bits. Codes, and float32 scales, are those of bitsandbytes 0.50 to the bit. Codes of scales are
/// the nearest, where its kernel for CPUs takes another for up to one in a hundred; the offset, a mean, may differ in
/// the last bit.
class FourBitQuantizer {
 public:
  explicit FourBitQuantizer(FourBitForm form) { matrix_.form = form; }

  /// The next numbers of the matrix, whole blocks.
  void add(std::span<const float> values);
  /// The matrix of all that was added.
  [[nodiscard]] FourBitMatrix finish();

 private:
  FourBitMatrix matrix_;
};

}  // namespace sft
