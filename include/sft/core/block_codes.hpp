// SPDX-License-Identifier: Apache-2.0
#pragma once
// The dynamic code of 8 bits (Dettmers 2016, "8-Bit Approximations for Parallelism in Deep Learning"), as
// bitsandbytes.functional.create_dynamic_map makes it with 7 exponent bits: decades from 1e-7 to 1, each with twice the
// numbers of the one below, evenly spaced. Without headers that have inline functions, for kernels of
// every instruction set; static so that kernels of one instruction set keep their own.

#include <cstdint>

namespace sft {

/// Elements that share a scale.
inline constexpr std::int64_t dynamic_block_size = 256;

struct BlockCode {
  float values[256];   ///< of the codes, ascending
  float borders[256];  ///< half way between value i and value i + 1; the last one is not used
};

/// With a sign: 127 numbers above zero, as many below, 0 and 1. Without: 254 numbers, 0 and 1.
static constexpr BlockCode make_block_code(bool is_signed) {
  BlockCode code{};
  int first = 0, last = 256;
  code.values[--last] = 1.0f;
  const float decades[] = {1.0f, 0.1f, 0.01f, 0.001f, 1e-4f, 1e-5f, 1e-6f};
  int count = is_signed ? 64 : 128;  // of the decade
  for (const float decade : decades) {
    // torch.linspace(0.1, 1, count + 1), to the bit: its second half counts from the end, and it rounds once.
    const float step = (1.0f - 0.1f) / static_cast<float>(count);
    const auto border = [&](int i) {
      const double from_begin = static_cast<double>(0.1f) + static_cast<double>(step) * i;
      const double from_end = 1.0 - static_cast<double>(step) * (count - i);
      return static_cast<float>(i < (count + 1) / 2 ? from_begin : from_end);
    };
    for (int i = count - 1; i >= 0; --i) {
      const float value = decade * ((border(i) + border(i + 1)) / 2.0f);
      code.values[--last] = value;
      if (is_signed) code.values[first++] = -value;
    }
    count /= 2;
  }
  for (int i = 0; i < 255; ++i) code.borders[i] = (code.values[i] + code.values[i + 1]) * 0.5f;
  return code;
}

/// The code whose value is nearest to x, the lower one of two; `borders` of a BlockCode.
static constexpr int nearest_code(const float* borders, float x) {
  int code = x > borders[127] ? 128 : 0;  // without a loop, so that loops around it are made vectors
  code += x > borders[code + 63] ? 64 : 0;
  code += x > borders[code + 31] ? 32 : 0;
  code += x > borders[code + 15] ? 16 : 0;
  code += x > borders[code + 7] ? 8 : 0;
  code += x > borders[code + 3] ? 4 : 0;
  code += x > borders[code + 1] ? 2 : 0;
  code += x > borders[code] ? 1 : 0;
  return code;
}

/// The code of zero in the code with a sign.
inline constexpr int signed_zero_code = 127;

}  // namespace sft
