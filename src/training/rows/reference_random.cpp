// SPDX-License-Identifier: Apache-2.0
#include "sft/rows/reference_random.hpp"

#include <array>
#include <bit>
#include <numeric>
#include <random>
#include <utility>

#include "sft/core/ensure.hpp"

namespace sft::rows {

namespace {

__extension__ typedef unsigned __int128 Uint128;

/// Spreads the words of a seed over as many numbers as are asked for.
class SeedSequence {
 public:
  explicit SeedSequence(std::uint64_t seed) {
    const std::array<std::uint32_t, 4> entropy = {static_cast<std::uint32_t>(seed),
                                                  static_cast<std::uint32_t>(seed >> 32), 0, 0};
    std::uint32_t constant = 0x43b0d7e5u;
    const auto hash = [&constant](std::uint32_t value) {
      value ^= constant;
      constant *= 0x931e8875u;
      value *= constant;
      return value ^ (value >> 16);
    };
    for (std::size_t i = 0; i < pool_.size(); ++i) pool_[i] = hash(entropy[i]);
    for (std::size_t from = 0; from < pool_.size(); ++from) {
      for (std::size_t to = 0; to < pool_.size(); ++to) {
        if (from != to) pool_[to] = mix(pool_[to], hash(pool_[from]));
      }
    }
  }

  /// Four 64-bit words.
  [[nodiscard]] std::array<std::uint64_t, 4> state() const {
    std::uint32_t constant = 0x8b51f9ddu;
    std::array<std::uint64_t, 4> words{};
    for (std::size_t i = 0; i < 2 * words.size(); ++i) {
      std::uint32_t value = pool_[i % pool_.size()] ^ constant;
      constant *= 0x58f38dedu;
      value *= constant;
      value ^= value >> 16;
      words[i / 2] |= std::uint64_t{value} << (32 * (i % 2));
    }
    return words;
  }

 private:
  static std::uint32_t mix(std::uint32_t x, std::uint32_t y) {
    const std::uint32_t value = 0xca01f9ddu * x - 0x4973f715u * y;
    return value ^ (value >> 16);
  }

  std::array<std::uint32_t, 4> pool_{};
};

class Pcg64 {
 public:
  explicit Pcg64(std::uint64_t seed) {
    const std::array<std::uint64_t, 4> words = SeedSequence(seed).state();
    increment_ = (join(words[2], words[3]) << 1) | 1;
    state_ = increment_ + join(words[0], words[1]);
    step();
  }

  std::uint64_t next() {
    step();
    const auto folded = static_cast<std::uint64_t>(state_ >> 64) ^ static_cast<std::uint64_t>(state_);
    return std::rotr(folded, static_cast<int>(state_ >> 122));
  }

  /// Halves of a draw, the low one first.
  std::uint32_t next_half() {
    if (has_half_) {
      has_half_ = false;
      return half_;
    }
    const std::uint64_t draw = next();
    has_half_ = true;
    half_ = static_cast<std::uint32_t>(draw >> 32);
    return static_cast<std::uint32_t>(draw);
  }

  /// Uniform in [0, last].
  std::uint64_t up_to(std::uint64_t last) {
    const std::uint64_t mask = ~std::uint64_t{0} >> std::countl_zero(last | 1);
    while (true) {
      const std::uint64_t draw = (last <= 0xffffffffu ? next_half() : next()) & mask;
      if (draw <= last) return draw;
    }
  }

 private:
  static Uint128 join(std::uint64_t high, std::uint64_t low) { return (Uint128{high} << 64) | low; }
  void step() { state_ = state_ * join(2549297995355413924u, 4865540595714422341u) + increment_; }

  Uint128 state_ = 0, increment_ = 0;
  bool has_half_ = false;
  std::uint32_t half_ = 0;
};

}  // namespace

std::vector<std::int64_t> numpy_permutation(std::int64_t size, std::uint64_t seed) {
  std::vector<std::int64_t> permutation(size);
  std::iota(permutation.begin(), permutation.end(), 0);
  Pcg64 generator(seed);
  for (std::size_t i = permutation.size(); i > 1; --i)
    std::swap(permutation[i - 1], permutation[generator.up_to(i - 1)]);
  return permutation;
}

std::vector<std::uint32_t> torch_permutation(std::int64_t size, std::uint64_t seed) {
  SFT_ENSURE(size >= 0, "a permutation of torch has few enough elements");
  SFT_ENSURE(size < max_torch_permutation, "a permutation of torch has few enough elements");
  std::vector<std::uint32_t> permutation(size);
  std::iota(permutation.begin(), permutation.end(), 0u);
  std::mt19937 generator(static_cast<std::uint32_t>(seed));
  const auto num_left_at = [&](std::size_t i) { return static_cast<std::uint32_t>(permutation.size() - i); };
  for (std::size_t i = 0; i + 1 < permutation.size(); ++i) {
    std::swap(permutation[i], permutation[i + generator() % num_left_at(i)]);
  }
  return permutation;
}

}  // namespace sft::rows
