// SPDX-License-Identifier: Apache-2.0
#include "sft/rows/permutation.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "sft/core/ensure.hpp"

namespace sft::rows {

namespace {

/// The output function of SplitMix64: a bijection that scrambles a counter.
std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

class SplitMix64 {
 public:
  SplitMix64(std::uint64_t seed, std::uint64_t stream) : state_(scramble(scramble(seed + golden_) + stream)) {}

  /// Uniform in [0, bound): draws that would favour small values are drawn again.
  std::uint64_t below(std::uint64_t bound) {
    const std::uint64_t biased = (0 - bound) % bound;  // 2^64 mod bound
    std::uint64_t draw = next();
    while (draw < biased) draw = next();
    return draw % bound;
  }

  std::uint64_t next() { return scramble(state_ += golden_); }

 private:
  static constexpr std::uint64_t golden_ = 0x9e3779b97f4a7c15u;
  std::uint64_t state_;
};

}  // namespace

template <class Index>
std::vector<Index> random_permutation(std::int64_t size, std::uint64_t seed, std::uint64_t stream) {
  std::vector<Index> permutation(size);
  std::iota(permutation.begin(), permutation.end(), Index{0});
  SplitMix64 generator(seed, stream);
  for (std::size_t i = permutation.size(); i > 1; --i) {
    std::swap(permutation[i - 1], permutation[generator.below(i)]);
  }
  return permutation;
}

template std::vector<std::int64_t> random_permutation(std::int64_t, std::uint64_t, std::uint64_t);
template std::vector<std::uint32_t> random_permutation(std::int64_t, std::uint64_t, std::uint64_t);

KeyedPermutation::KeyedPermutation(std::int64_t size, std::uint64_t seed, std::uint64_t stream)
    : size_(static_cast<std::uint64_t>(size)) {
  SFT_ENSURE(size > 0, "a permutation has elements");
  const auto bits = static_cast<int>(std::bit_width(size_ - 1));  // of the largest element
  half_bits_ = std::max((bits + 1) / 2, 1);
  SplitMix64 generator(seed, stream);
  for (std::uint64_t& key : keys_) key = generator.next();
}

std::int64_t KeyedPermutation::operator()(std::int64_t index) const {
  const std::uint64_t mask = (std::uint64_t{1} << half_bits_) - 1;
  auto value = static_cast<std::uint64_t>(index);
  SFT_ENSURE(value < size_, "a permutation is asked within its range");
  do {
    std::uint64_t left = value >> half_bits_, right = value & mask;
    for (const std::uint64_t key : keys_) {
      left ^= scramble(key + right) & mask;
      std::swap(left, right);
    }
    value = (left << half_bits_) | right;
  } while (value >= size_);
  return static_cast<std::int64_t>(value);
}

}  // namespace sft::rows
