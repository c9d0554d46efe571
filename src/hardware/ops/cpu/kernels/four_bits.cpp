// SPDX-License-Identifier: Apache-2.0
// Numbers of matrices in 4 bits; see sft/ops/calls/four_bits.hpp.

#include "ops/cpu/kernels/table.hpp"
#include "ops/cpu/kernels/types.hpp"
#include "sft/core/block_codes.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

constexpr BlockCode scale_code = make_block_code(true);

/// The scale of block number `block` of the whole matrix, of its code.
float nested_scale(const float* nested, std::int64_t block, std::uint8_t code) {
  // Rounded, not contracted with the sum.
  const volatile float product = scale_code.values[code] * nested[1 + block / nested_scale_block];
  return product + nested[0];
}

void read_four_bits(View out, const FourBitArguments& from) {
  const std::int64_t row_blocks = out.columns / four_bit_block;
  with_type(out, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (out.rows * out.columns >= min_parallel_elements)
    for (std::int64_t r = 0; r < out.rows; ++r) {
      T* to = row<T>(out, r);
      for (std::int64_t b = 0; b < row_blocks; ++b) {
        const std::uint8_t* record = from.records + (r * row_blocks + b) * from.record_bytes;
        const std::uint8_t* stored = record + four_bit_code_bytes;
        float scale = 0.0f;
        if (from.nested == nullptr) {
          __builtin_memcpy(&scale, stored, sizeof scale);
        } else {
          scale = nested_scale(from.nested, from.first_block + r * from.row_blocks + b, *stored);
        }
        T numbers[16];
        for (int code = 0; code < 16; ++code) store(numbers[code], from.values[code] * scale);
        for (std::int64_t i = 0; i < four_bit_code_bytes; ++i) {
          to[b * four_bit_block + 2 * i] = numbers[record[i] >> 4];
          to[b * four_bit_block + 2 * i + 1] = numbers[record[i] & 15];
        }
      }
    }
  });
}

}  // namespace

void enter_four_bits(Kernels& table) { table.read_four_bits = read_four_bits; }

}  // namespace sft::ops::cpu::SFT_ISA
