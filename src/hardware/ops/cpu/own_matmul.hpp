// SPDX-License-Identifier: Apache-2.0
#pragma once
// Our own products with float32 sums, where they are faster than the library's: of matrices on packed copies
// (kernels/packed_matmul.cpp, and kernels/packed_matmul_amx.cpp in AMX tiles), and of a matrix and a vector
// (kernels/vector_matmul.cpp).

#include "ops/cpu/isa.hpp"
#include "ops/cpu/kernels.hpp"
#include "sft/core/dtype.hpp"

namespace sft::ops::cpu {

/// Whether products of numbers of this dtype, float32 or bf16, are ours with `isa`. Measured on Zen 4: with AVX2
/// float32 ones of oneDNN 2.6 lose up to half of their speed where c has as few as 512 columns or rows, and allocate
/// copies of operands; with AVX-512 they are as fast. Ours turn bf16 numbers into float32 as they are copied, where the
/// library's float32 products have to be given converted tiles: weight gradients run at 1.11 to 1.15 of the rate with
/// AVX2 and 1.03 to 1.11 with AVX-512, others at 0.99 to 1.10 and 0.96 to 1.02, with no machine code for each shape. On
/// AMX, of Emerald Rapids, bf16 ones of 512 tokens take 0.57 to 0.97 of the library's time.
[[nodiscard]] bool has_own_products(Isa isa, DType dtype);

/// How `num_threads` threads share a product: each makes a part of c of its own, from copies of its own.
struct ThreadGrid {
  std::int64_t row_parts, column_parts;
};
/// That of least work for the busiest thread.
[[nodiscard]] ThreadGrid thread_grid(std::int64_t m, std::int64_t n, int num_threads);

/// The product on as many threads as OpenMP has, which share the scratch. The bits of c depend neither on their number
/// nor on m and n, but that those of a single row or column differ from those of several.
void run_own_product(const Kernels& kernels, const MatmulArguments& product, Scratch scratch);

/// Floats of scratch that the product takes at least on `num_threads` threads.
[[nodiscard]] std::int64_t least_scratch_floats(const MatmulArguments& product, int num_threads);

}  // namespace sft::ops::cpu
