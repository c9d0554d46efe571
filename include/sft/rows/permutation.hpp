// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random permutations that are the same on every machine, compiler and mesh.

#include <array>
#include <cstdint>
#include <vector>

namespace sft::rows {

/// A uniformly random permutation of 0 ... size - 1, a function of its arguments alone: Fisher-Yates on the
/// counter-based generator SplitMix64 (Steele, Lea and Flood, 2014), without modulo bias. Different streams of one seed
/// are independent. Index: std::int64_t, or std::uint32_t where the size allows it.
template <class Index = std::int64_t>
[[nodiscard]] std::vector<Index> random_permutation(std::int64_t size, std::uint64_t seed, std::uint64_t stream);

/// A pseudorandom permutation of 0 ... size - 1 that takes no memory, a function of its arguments alone: a Feistel
/// network (Luby and Rackoff, 1988) on the next even power of two, walked along its cycle until it is back in the range
/// (Black and Rogaway, 2002), which takes less than four turns on average.
class KeyedPermutation {
 public:
  KeyedPermutation(std::int64_t size, std::uint64_t seed, std::uint64_t stream);
  /// Where `index` of [0, size) goes.
  [[nodiscard]] std::int64_t operator()(std::int64_t index) const;

 private:
  std::uint64_t size_;
  int half_bits_ = 1;  ///< the network permutes numbers of twice as many bits
  std::array<std::uint64_t, 6> keys_{};
};

}  // namespace sft::rows
