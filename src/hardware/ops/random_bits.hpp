// SPDX-License-Identifier: Apache-2.0
#pragma once
// The random bits that all backends draw alike, from a key and a number alone. C++17 that every compiler takes: the
// functions are constexpr so that GPU code may call them, and static so that kernels of one instruction set keep their
// own.

#include <cstdint>

namespace sft::ops {

struct PhiloxWords {
  std::uint32_t a, b, c, d;
};

/// Four random words of a counter: Philox4x32-10 (Salmon et al. 2011).
static constexpr PhiloxWords philox(std::uint64_t seed, std::uint64_t counter) {
  constexpr std::uint32_t multiplier0 = 0xd2511f53u, multiplier1 = 0xcd9e8d57u;
  std::uint32_t c0 = static_cast<std::uint32_t>(counter), c1 = static_cast<std::uint32_t>(counter >> 32);
  std::uint32_t c2 = 0, c3 = 0;
  std::uint32_t k0 = static_cast<std::uint32_t>(seed), k1 = static_cast<std::uint32_t>(seed >> 32);
  for (int round = 0; round < 10; ++round) {
    const std::uint32_t high0 = static_cast<std::uint32_t>((static_cast<std::uint64_t>(c0) * multiplier0) >> 32);
    const std::uint32_t high1 = static_cast<std::uint32_t>((static_cast<std::uint64_t>(c2) * multiplier1) >> 32);
    const std::uint32_t low0 = c0 * multiplier0, low1 = c2 * multiplier1;
    c0 = high1 ^ c1 ^ k0;
    c1 = low1;
    c2 = high0 ^ c3 ^ k1;
    c3 = low0;
    k0 += 0x9e3779b9u;
    k1 += 0xbb67ae85u;
  }
  return {c0, c1, c2, c3};
}

/// The seed of an op that draws once in a micro-batch: of the micro-batch's own, and of numbers that tell ops apart.
static constexpr std::uint64_t seed_of_op(std::uint64_t micro_batch, std::uint64_t number, std::uint64_t part) {
  return (micro_batch ^ number) * 0x9e3779b97f4a7c15u + part;
}

/// 24 bits of a word, evenly distributed in [-1, 1).
static constexpr float uniform_of(std::uint32_t word) {
  return static_cast<float>(static_cast<std::int32_t>(word >> 8) - 0x800000) * 0x1p-23f;
}

/// The least word whose uniform_of() is not below 2 probability - 1: dropout drops the element of a lesser one.
/// 0 <= probability < 1.
static constexpr std::uint32_t first_kept_word(float probability) {
  const float scaled = (2.0f * probability - 1.0f) * 0x1p23f;
  const std::int32_t whole = static_cast<std::int32_t>(scaled);
  const std::int32_t least = whole + (static_cast<float>(whole) < scaled ? 1 : 0);
  return static_cast<std::uint32_t>(least + 0x800000) << 8;
}

static constexpr std::uint64_t halves_swapped(std::uint64_t x) { return x >> 32 | x << 32; }

/// 64 random bits of (key, index): the generator "squares" (Widynski 2020) with five rounds. key is odd.
static constexpr std::uint64_t squares(std::uint64_t key, std::uint64_t index) {
  const std::uint64_t y = index * key, z = y + key;
  std::uint64_t x = y;
  x = halves_swapped(x * x + y);
  x = halves_swapped(x * x + z);
  x = halves_swapped(x * x + y);
  const std::uint64_t low = x * x + z;
  x = halves_swapped(low);
  return low ^ ((x * x + y) >> 32);
}

}  // namespace sft::ops
