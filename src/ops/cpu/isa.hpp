// SPDX-License-Identifier: Apache-2.0
#pragma once
// The instruction sets the kernels are compiled for, and the choice among them at run time.

#include "ops/cpu/kernels.hpp"

namespace sft::ops::cpu {

/// amx: AVX-512 with bf16 products in AMX tiles.
enum class Isa { baseline, avx2, avx512, amx };

/// The best that this processor has and ONEDNN_MAX_CPU_ISA allows: one variable limits oneDNN's products and our
/// kernels.
[[nodiscard]] Isa best_isa();
/// The most that a value of ONEDNN_MAX_CPU_ISA allows; amx for one that does not limit, or nullptr.
[[nodiscard]] Isa isa_limit(const char* onednn_name);
[[nodiscard]] const char* name_of(Isa isa);
/// The kernels compiled for `isa`, which this processor must have.
[[nodiscard]] const Kernels& kernels_of(Isa isa);

}  // namespace sft::ops::cpu
