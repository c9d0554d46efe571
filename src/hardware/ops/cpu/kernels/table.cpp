// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/kernels.hpp"
#include "ops/cpu/kernels/run.hpp"

namespace sft::ops::cpu::SFT_ISA {

void fill_table(Kernels& table);

void fill_table(Kernels& table) {
  table.for_each([]<class Op>(OpKernel<Op>& kernel) { kernel.run = run<Op>; });
  table.copy = copy_rows;
  table.copy_transposed = copy_transposed;
  table.read_fp8 = read_fp8;
  table.attention_forward = attention_forward;
  table.attention_backward = attention_backward;
  table.small_matmul = small_matmul;
  table.packed_matmul = packed_matmul;
  table.vector_matmul = vector_matmul;
}

}  // namespace sft::ops::cpu::SFT_ISA
