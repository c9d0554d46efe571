// SPDX-License-Identifier: Apache-2.0
#pragma once
// Our own float32 products, where they are faster than the library's.

#include "ops/cpu/isa.hpp"
#include "ops/cpu/kernels.hpp"

namespace sft::ops::cpu {

/// Whether `isa` has faster (m, n) products with packed_matmul than with oneDNN 2.6. Measured on Zen 4: with AVX2 those
/// of oneDNN lose up to half of their speed where c has as few as 512 columns or rows, and allocate copies of operands;
/// with AVX-512 they reach what packed_matmul does. A product with a vector reads a matrix once: a copy would double
/// that.
[[nodiscard]] bool is_faster_packed(std::int64_t m, std::int64_t n, Isa isa);

/// How `num_threads` threads share a product: each makes a part of c of its own, from copies of its own.
struct ThreadGrid {
  std::int64_t row_parts, column_parts;
};
/// That of least work for the busiest thread.
[[nodiscard]] ThreadGrid thread_grid(std::int64_t m, std::int64_t n, int num_threads);

/// The product on as many threads as OpenMP has, which share the scratch. The bits of c do not depend on their number,
/// on m or on n.
void run_packed(const Kernels& kernels, const Float32Matmul& product, Scratch scratch);

/// Floats of scratch that `num_threads` threads need at least.
[[nodiscard]] std::int64_t least_packed_scratch_floats(int num_threads);

}  // namespace sft::ops::cpu
