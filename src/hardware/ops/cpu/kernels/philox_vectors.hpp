// SPDX-License-Identifier: Apache-2.0
#pragma once
// philox() of ops/random_bits.hpp for a vector of counters. A word fills the low half of 64 bits, because processors
// multiply those halves of a vector into whole products; a round is six instructions for vector_counters counters.

#include <utility>

#include "ops/cpu/kernels/tile.hpp"

#if defined(__SSE2__)
#include <immintrin.h>
#endif

namespace sft::ops::cpu::SFT_ISA {

using RandomWords [[gnu::vector_size(vector_bytes)]] = std::uint32_t;

/// Counters that are drawn together; each gives four words.
inline constexpr int vector_counters = SFT_VECTOR_BITS / 64;

/// The words of neighbouring counters, in their order.
struct DrawnWords {
  RandomWords first, second;
};

namespace philox_detail {

using Wide [[gnu::vector_size(vector_bytes)]] = std::uint64_t;

/// The products of the low halves of the elements with `factor`.
inline Wide multiply_low_halves(Wide x, std::uint32_t factor) {
#if SFT_VECTOR_BITS == 512 && defined(__AVX512F__)
  // All elements; GCC 12 warns of its own header where _mm512_mul_epu32 is used.
  constexpr __mmask8 all = 0xff;
  return reinterpret_cast<Wide>(_mm512_maskz_mul_epu32(all, reinterpret_cast<__m512i>(x), _mm512_set1_epi64(factor)));
#elif SFT_VECTOR_BITS == 256 && defined(__AVX2__)
  return reinterpret_cast<Wide>(_mm256_mul_epu32(reinterpret_cast<__m256i>(x), _mm256_set1_epi64x(factor)));
#elif SFT_VECTOR_BITS == 128 && defined(__SSE2__)
  return reinterpret_cast<Wide>(_mm_mul_epu32(reinterpret_cast<__m128i>(x), _mm_set1_epi64x(factor)));
#else
  return (x & 0xffffffffu) * factor;
#endif
}

/// Lanes of 128 bits hold counters that are half a vector apart: then the words of each lane come out in order.
template <int... element>
inline Wide counters_from(std::uint64_t first, std::integer_sequence<int, element...>) {
  return first + Wide{(element / 2 + element % 2 * (vector_counters / 2))...};
}

/// The low halves of `even` and of `odd` in turn.
template <int... element>
inline Wide pair_low_halves(Wide even, Wide odd, std::integer_sequence<int, element...>) {
  constexpr int num_words = 2 * vector_counters;
  return reinterpret_cast<Wide>(__builtin_shufflevector(reinterpret_cast<RandomWords>(even),
                                                        reinterpret_cast<RandomWords>(odd),
                                                        (element % 2 == 0 ? element : num_words + element - 1)...));
}

/// The elements number `which` of each lane, of a and of b in turn.
template <int which, int... element>
inline RandomWords pair_elements(Wide a, Wide b, std::integer_sequence<int, element...>) {
  return reinterpret_cast<RandomWords>(
      __builtin_shufflevector(a, b, (element / 2 * 2 + which + (element % 2 == 0 ? 0 : vector_counters))...));
}

}  // namespace philox_detail

/// philox() of the counters from `first` on.
inline DrawnWords philox_of_vector(std::uint64_t seed, std::uint64_t first) {
  using namespace philox_detail;
  using Counters = std::make_integer_sequence<int, vector_counters>;
  using Words = std::make_integer_sequence<int, 2 * vector_counters>;
  constexpr std::uint32_t multiplier0 = 0xd2511f53u, multiplier1 = 0xcd9e8d57u;
  Wide c0 = counters_from(first, Counters{}), c1 = c0 >> 32, c2{}, c3{};
  std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const Wide product0 = multiply_low_halves(c0, multiplier0), product1 = multiply_low_halves(c2, multiplier1);
    c0 = (product1 >> 32) ^ c1 ^ k0;
    c1 = product1;
    c2 = (product0 >> 32) ^ c3 ^ k1;
    c3 = product0;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  const Wide front = pair_low_halves(c0, c1, Words{}), back = pair_low_halves(c2, c3, Words{});
  return {pair_elements<0>(front, back, Counters{}), pair_elements<1>(front, back, Counters{})};
}

}  // namespace sft::ops::cpu::SFT_ISA
