// SPDX-License-Identifier: Apache-2.0
#include "data/torch_random.hpp"

#include <numeric>
#include <random>
#include <utility>

#include "sft/core/ensure.hpp"

namespace sft::data {

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

}  // namespace sft::data
