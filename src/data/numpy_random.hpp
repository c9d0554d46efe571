// SPDX-License-Identifier: Apache-2.0
#pragma once
// The permutations of NumPy's default generator, with which the library datasets shuffles.

#include <cstdint>
#include <vector>

namespace sft::data {

/// numpy.random.default_rng(seed).permutation(size): PCG64 with the output function XSL-RR (O'Neill, 2014), seeded
/// through SeedSequence (NumPy's numpy/random/bit_generator.pyx, after O'Neill's randutils), and Fisher-Yates on draws
/// that are masked and redrawn above the bound.
[[nodiscard]] std::vector<std::int64_t> numpy_permutation(std::int64_t size, std::uint64_t seed);

}  // namespace sft::data
