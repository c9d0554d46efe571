// SPDX-License-Identifier: Apache-2.0
// Attention of bf16 tensors on pairs in vector registers.

#include "ops/cpu/kernels/attention_bf16.hpp"
#include "ops/cpu/kernels/pair_tile.hpp"

namespace sft::ops::cpu::SFT_ISA {

void enter_attention_pairs(Kernels& table);

void enter_attention_pairs(Kernels& table) { enter_attention_bf16<PairTiles>(table); }

}  // namespace sft::ops::cpu::SFT_ISA
