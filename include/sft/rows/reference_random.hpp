// SPDX-License-Identifier: Apache-2.0
#pragma once
// The random orders of NumPy and PyTorch.

#include <cstdint>
#include <vector>

namespace sft::rows {

/// numpy.random.default_rng(seed).permutation(size): PCG64 with the output function XSL-RR (O'Neill, 2014), seeded
/// through SeedSequence (NumPy's numpy/random/bit_generator.pyx, after O'Neill's randutils), and Fisher-Yates on draws
/// that are masked and redrawn above the bound.
[[nodiscard]] std::vector<std::int64_t> numpy_permutation(std::int64_t size, std::uint64_t seed);

/// torch.randperm draws 32 bits for each element of fewer elements than this, and 64 from here on.
inline constexpr std::int64_t max_torch_permutation = 0xffffffff / 20;

/// torch.randperm(size, generator=g) on the CPU, after g.manual_seed(seed): mt19937 (Matsumoto and Nishimura, 1998), of
/// whose seed 32 bits count, and Fisher-Yates from the front on draws modulo what is left. Below max_torch_permutation.
[[nodiscard]] std::vector<std::uint32_t> torch_permutation(std::int64_t size, std::uint64_t seed);

}  // namespace sft::rows
