// SPDX-License-Identifier: Apache-2.0
#include "ops/cpu/kernels/table.hpp"

namespace sft::ops::cpu::SFT_ISA {

void fill_table(Kernels& table);

void fill_table(Kernels& table) {
  enter_elementary(table);
  enter_four_bits(table);
  enter_fp8(table);
  enter_magnitudes(table);
  enter_random(table);
  enter_embedding(table);
  enter_rms_norm(table);
  enter_rope(table);
  enter_attention_forward(table);
  enter_attention_backward(table);
  enter_packed_matmul(table);
  enter_small_matmul(table);
  enter_split_norm(table);
  enter_router(table);
  enter_expert_rows(table);
  enter_gated(table);
  enter_cross_entropy(table);
  enter_update(table);
  enter_update_blockwise(table);
  enter_factored(table);
  enter_vector_matmul(table);
}

}  // namespace sft::ops::cpu::SFT_ISA
