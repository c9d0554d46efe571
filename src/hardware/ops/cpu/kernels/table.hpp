// SPDX-License-Identifier: Apache-2.0
#pragma once
// Each source of kernels/ enters its functions into the table of the instruction set it is compiled for.

#include "ops/cpu/kernels.hpp"

namespace sft::ops::cpu::SFT_ISA {

void enter_elementary(Kernels& table);
void enter_four_bits(Kernels& table);
void enter_fp8(Kernels& table);
void enter_magnitudes(Kernels& table);
void enter_random(Kernels& table);
void enter_embedding(Kernels& table);
void enter_rms_norm(Kernels& table);
void enter_rope(Kernels& table);
void enter_attention_forward(Kernels& table);
void enter_attention_backward(Kernels& table);
void enter_packed_matmul(Kernels& table);
void enter_small_matmul(Kernels& table);
void enter_split_norm(Kernels& table);
void enter_router(Kernels& table);
void enter_expert_rows(Kernels& table);
void enter_gated(Kernels& table);
void enter_cross_entropy(Kernels& table);
void enter_update(Kernels& table);
void enter_update_blockwise(Kernels& table);
void enter_factored(Kernels& table);
void enter_vector_matmul(Kernels& table);

}  // namespace sft::ops::cpu::SFT_ISA
