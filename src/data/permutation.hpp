#pragma once
// Random permutations that are the same on every machine, compiler and mesh.

#include <cstdint>
#include <vector>

namespace sft::data {

/// A uniformly random permutation of 0 ... size - 1, a function of its arguments alone: Fisher-Yates on the
/// counter-based generator SplitMix64 (Steele, Lea and Flood, 2014), without modulo bias. Different streams of one seed
/// are independent.
[[nodiscard]] std::vector<std::int64_t> random_permutation(std::int64_t size, std::uint64_t seed, std::uint64_t stream);

}  // namespace sft::data
