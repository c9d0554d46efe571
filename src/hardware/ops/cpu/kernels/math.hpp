// SPDX-License-Identifier: Apache-2.0
#pragma once
// Branch-free elementary functions that the compiler vectorises (polynomials of S. Moshier's Cephes library), within
// about 2 units in the last place. NaN in, NaN out.

#include "ops/cpu/kernels/types.hpp"
#include "ops/sine_cosine.hpp"

namespace sft::ops::cpu::SFT_ISA {

/// Adding and subtracting it rounds a float of small magnitude to the nearest integer.
inline constexpr float rounding_magic = 12582912.0f;  // 1.5 * 2^23

/// e^x for x < 88; exactly 0 below the normal range.
inline float exp_of(float x) {
  const float shifted = x * 1.44269504088896341f + rounding_magic;
  const float n = shifted - rounding_magic;
  const float r = (x - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  // The low bits of `shifted` hold n; moved into the exponent they scale by 2^n.
  const std::uint32_t exponent = (__builtin_bit_cast(std::uint32_t, shifted) + 127u) << 23;
  const float result = p * __builtin_bit_cast(float, exponent);
  return x < -87.33f ? 0.0f : result;
}

/// Natural logarithm of a positive normal float.
inline float log_of(float x) {
  const std::uint32_t bits = __builtin_bit_cast(std::uint32_t, x);
  // Mantissa in [sqrt(1/2), sqrt(2)).
  const std::uint32_t shifted = bits - 0x3f3504f3u;
  const float e = static_cast<float>(static_cast<std::int32_t>(shifted) >> 23);
  const float m = __builtin_bit_cast(float, (shifted & 0x007fffffu) + 0x3f3504f3u) - 1.0f;
  float p = 7.0376836292e-2f;
  p = p * m - 1.1514610310e-1f;
  p = p * m + 1.1676998740e-1f;
  p = p * m - 1.2420140846e-1f;
  p = p * m + 1.4249322787e-1f;
  p = p * m - 1.6668057665e-1f;
  p = p * m + 2.0000714765e-1f;
  p = p * m - 2.4999993993e-1f;
  p = p * m + 3.3333331174e-1f;
  const float square = m * m;
  const float tail = p * m * square - e * 2.12194440e-4f - 0.5f * square;
  return m + tail + e * 0.693359375f;
}

/// 1 / (1 + e^-x)
inline float sigmoid_of(float x) {
  const float bounded = x < -87.0f ? -87.0f : x;
  return 1.0f / (1.0f + exp_of(-bounded));
}

/// Hyperbolic tangent.
inline float tanh_of(float x) {
  const float size = x < 0.0f ? -x : x, square = x * x;
  float p = -5.70498872745e-3f;
  p = p * square + 2.06390887954e-2f;
  p = p * square - 5.37397155531e-2f;
  p = p * square + 1.33314422036e-1f;
  p = p * square - 3.33332819422e-1f;
  const float small = p * square * x + x;
  const float bounded = size > 20.0f ? 20.0f : size;
  const float large = 1.0f - 2.0f / (exp_of(2.0f * bounded) + 1.0f);
  return size < 0.625f ? small : x < 0.0f ? -large : large;
}

}  // namespace sft::ops::cpu::SFT_ISA
