// SPDX-License-Identifier: Apache-2.0
#pragma once
// The functions of kernels/, which are compiled for the instruction set SFT_ISA: table.cpp finds them by their names.

#include "ops/cpu/attention_arguments.hpp"
#include "ops/cpu/matmul_arguments.hpp"
#include "ops/cpu/scratch.hpp"
#include "ops/views/fp8.hpp"
#include "ops/views/tensor.hpp"

namespace sft::ops::cpu::SFT_ISA {

/// Runs the op. The source of a kernel specializes it.
template <class Op>
void run(const Op& op, Scratch scratch);

// Other members of Kernels.
void copy_rows(View destination, ConstView source);
void copy_transposed(View destination, ConstView source);
void read_fp8(View out, ConstFp8View from, std::int64_t first_line, std::int64_t first_term);
void attention_forward(const AttentionArguments& arguments, Scratch scratch);
void attention_backward(const AttentionArguments& arguments, Scratch scratch);
void small_matmul(const MatmulArguments& product, double* panel);
void packed_matmul(const MatmulArguments& product, Scratch scratch);
void vector_matmul(const MatmulArguments& product, Scratch scratch);

}  // namespace sft::ops::cpu::SFT_ISA
