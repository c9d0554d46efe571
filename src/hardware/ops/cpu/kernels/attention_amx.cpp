// SPDX-License-Identifier: Apache-2.0
// Attention of bf16 tensors in AMX tiles.

#include "ops/cpu/kernels/amx_tile.hpp"
#include "ops/cpu/kernels/attention_bf16.hpp"

namespace sft::ops::cpu::SFT_ISA {

void enter_attention_amx(Kernels& table);

void enter_attention_amx(Kernels& table) { enter_attention_bf16<AmxTiles>(table); }

}  // namespace sft::ops::cpu::SFT_ISA
