// SPDX-License-Identifier: Apache-2.0
#pragma once
// The instruction sets the kernels are compiled for, and the choice among them at run time.

#include "ops/cpu/kernels.hpp"

namespace sft::ops::cpu {

/// avx512_bf16: AVX-512 with products of bf16 pairs in vector registers; amx: with products in AMX tiles, too.
enum class Isa { baseline, avx2, avx512, avx512_bf16, amx };

/// The best that this processor has and ONEDNN_MAX_CPU_ISA allows: one variable limits oneDNN's products and our
/// kernels.
[[nodiscard]] Isa best_isa();
/// The most that a value of ONEDNN_MAX_CPU_ISA allows; amx for one that does not limit, or nullptr.
[[nodiscard]] Isa isa_limit(const char* onednn_name);
[[nodiscard]] const char* name_of(Isa isa);
/// Whether matrix products of bf16 numbers take less time on this processor with `isa` than the same in float32.
[[nodiscard]] bool has_fast_bf16_products(Isa isa);
/// The kernels compiled for `isa`, which this processor must have.
[[nodiscard]] const Kernels& kernels_of(Isa isa);

}  // namespace sft::ops::cpu
