// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrices in 4 bits as bitsandbytes stores them (QLoRA, Dettmers et al. 2023): blocks of numbers with a scale each,
// and a table of 16 numbers that codes stand for (nf4, fp4). The scales may be codes of 8 bits themselves ("double
// quantization"), in blocks with scales of their own.
//
// A matrix NAME is five tensors at most: NAME, U8, two codes a byte, the first one in the upper bits; NAME.absmax, F32,
// or U8 where scales are codes; NAME.quant_map; NAME.nested_absmax and NAME.nested_quant_map; and
// NAME.quant_state.bitsandbytes__nf4, or fp4: JSON with shape, dtype and block sizes.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sft/core/four_bits.hpp"
#include "sft/hub/weights.hpp"

namespace sft::hub {

/// All of a matrix but its codes and the scales, or codes of these, of single blocks.
struct FourBitState {
  std::vector<std::int64_t> shape;
  WeightType type = WeightType::float32;  ///< what the matrix was made of, and what its numbers are rounded to
  std::int64_t block = 64;                ///< numbers that share a scale
  std::vector<float> table;               ///< 16 numbers
  // With double quantization.
  std::int64_t nested_block = 0;  ///< scales that share one; 0: scales are float32
  float nested_offset = 0.0F;
  std::vector<float> nested_table, nested_scales;  ///< 256; one for each block of scales

  [[nodiscard]] std::int64_t num_elements() const;
  [[nodiscard]] std::int64_t num_scales() const { return (num_elements() + block - 1) / block; }
  [[nodiscard]] bool is_nested() const { return nested_block > 0; }
  /// The scale of a block whose number is `index`, of its code.
  [[nodiscard]] float scale_of(std::uint8_t code, std::int64_t index) const {
    return nested_table[code] * nested_scales[index / nested_block] + nested_offset;
  }
};

/// Suffixes of the names beside a matrix in 4 bits, the state's first.
[[nodiscard]] const std::vector<std::string>& four_bit_suffixes();

/// Reads the JSON of a state: shape, type, block sizes and offset; tables and scales are left empty. Throws
/// std::invalid_argument, with what is wrong, for what bitsandbytes does not write.
[[nodiscard]] FourBitState parse_four_bit_state(std::string_view json);

/// The form of a matrix that is stored as FourBitMatrix has it: rows of whole blocks, the tables and sizes of blocks
/// that bitsandbytes uses unless it is told to use others; none for others.
[[nodiscard]] std::optional<FourBitForm> form_of(const FourBitState& state);

/// The numbers [first, first + count), float32, of their codes: `codes` begins with the byte of number first, `scales`
/// with that of its block.
void read_four_bits(const FourBitState& state, std::int64_t first, std::int64_t count, const std::uint8_t* codes,
                    const float* scales, float* values);

}  // namespace sft::hub
