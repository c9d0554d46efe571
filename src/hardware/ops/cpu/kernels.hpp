// SPDX-License-Identifier: Apache-2.0
#pragma once
// The kernels of the CPU backend, as a table of function pointers: the sources in kernels/ are compiled once for each
// instruction set and one table is chosen at run time. Everything under kernels/, and what it includes, exports no
// inline function, because the linker could otherwise pick an AVX-512 copy of it for everyone: sizes and pointers of
// tensors come from functions that are compiled once (ops/views).

#include <cstdint>
#include <type_traits>
#include <variant>

#include "ops/cpu/attention_arguments.hpp"
#include "ops/cpu/matmul_arguments.hpp"
#include "ops/cpu/scratch.hpp"
#include "ops/views/fp8.hpp"
#include "sft/ops/call.hpp"

namespace sft::ops::cpu {

/// Whether kernels/ has a function for the op. The backend makes others of products, or of attention over a plan.
template <class Op>
inline constexpr bool has_kernel =
    !(std::is_same_v<Op, Matmul> || std::is_same_v<Op, Fp8Matmul> || std::is_same_v<Op, GroupedMatmul> ||
      std::is_same_v<Op, GroupedWeightGradient> || std::is_same_v<Op, GroupedBiasGradient> ||
      std::is_same_v<Op, AttentionForward> || std::is_same_v<Op, AttentionBackward>);

/// The kernel of an op: a function that runs it. Without an initializer, because a table of a kernel's source would be
/// initialized by instructions that the processor may not have.
template <class Op>
struct OpKernel {
  void (*run)(const Op& op, Scratch scratch);
};

/// The kernels of all ops.
template <class AnyOp>
struct OpKernels;
template <class... Ops>
struct OpKernels<std::variant<Ops...>> : OpKernel<Ops>... {
  /// Calls f with each OpKernel of an op that has one.
  template <class F>
  void for_each(const F& f) {
    const auto visit = [&]<class Op>(OpKernel<Op>& kernel) {
      if constexpr (has_kernel<Op>) f(kernel);
    };
    (visit(static_cast<OpKernel<Ops>&>(*this)), ...);
  }
};

struct Kernels : OpKernels<Call> {
  template <class Op>
  void run(const Op& op, Scratch scratch) const {
    static_cast<const OpKernel<Op>&>(*this).run(op, scratch);
  }

  void (*copy)(View destination, ConstView source);
  void (*copy_transposed)(View destination, ConstView source);  ///< destination is float32
  /// out (float32, or bf16, which holds them unless they are below 2^-133) = the elements from that line and term on.
  void (*read_fp8)(View out, ConstFp8View from, std::int64_t first_line, std::int64_t first_term);

  void (*attention_forward)(const AttentionArguments& arguments, Scratch scratch);
  void (*attention_backward)(const AttentionArguments& arguments, Scratch scratch);

  /// Multiplies float32 operands, with float64 sums.
  void (*small_matmul)(const MatmulArguments& product, double* panel);
  /// On the calling thread. The terms of every sum are added in one order, whatever the size of the product.
  void (*packed_matmul)(const MatmulArguments& product, Scratch scratch);
  /// Makes one row or one column, with scratch for k floats. One of the strides of the matrix is 1.
  void (*vector_matmul)(const MatmulArguments& product, Scratch scratch);
};

}  // namespace sft::ops::cpu
