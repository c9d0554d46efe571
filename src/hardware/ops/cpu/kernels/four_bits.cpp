// SPDX-License-Identifier: Apache-2.0
// Numbers of matrices in 4 bits; see sft/ops/calls/four_bits.hpp.

#include "sft/ops/calls/four_bits.hpp"
#include "ops/cpu/kernels/run.hpp"
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

}  // namespace

template <>
void run(const ReadFourBits& op, Scratch) {
  const View out = view_of(op.out);
  const auto* const records = op.records.as<std::uint8_t>();
  const std::int64_t record_bytes = op.form.record_bytes();
  const float* const values = op.form.values();
  const float* const nested = op.form.is_nested ? floats_of(op.nested) : nullptr;
  const std::int64_t row_blocks = out.columns / four_bit_block;
  with_type(out, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (out.rows * out.columns >= min_parallel_elements)
    for (std::int64_t r = 0; r < out.rows; ++r) {
      T* to = row<T>(out, r);
      for (std::int64_t b = 0; b < row_blocks; ++b) {
        const std::uint8_t* record = records + (r * row_blocks + b) * record_bytes;
        const std::uint8_t* stored = record + four_bit_code_bytes;
        float scale = 0.0f;
        if (nested == nullptr) {
          __builtin_memcpy(&scale, stored, sizeof scale);
        } else {
          scale = nested_scale(nested, op.first_block + r * op.row_blocks + b, *stored);
        }
        T numbers[16];
        for (int code = 0; code < 16; ++code) store(numbers[code], values[code] * scale);
        for (std::int64_t i = 0; i < four_bit_code_bytes; ++i) {
          to[b * four_bit_block + 2 * i] = numbers[record[i] >> 4];
          to[b * four_bit_block + 2 * i + 1] = numbers[record[i] & 15];
        }
      }
    }
  });
}

}  // namespace sft::ops::cpu::SFT_ISA
