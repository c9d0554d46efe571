// SPDX-License-Identifier: Apache-2.0
#pragma once
// NCCL's enumerations: names for messages, sizes, and arithmetic.

#include <nccl.h>

#include <cstddef>

namespace sft::emulation {

/// "ncclFloat32"; "an unknown type" for what is none.
[[nodiscard]] const char* name_of(ncclDataType_t type);
[[nodiscard]] const char* name_of(ncclRedOp_t operation);
/// Bytes of an element; 0 for what is no type.
[[nodiscard]] std::size_t size_of(ncclDataType_t type);

/// Whether fold() has this arithmetic: sum, max and min of float32, float64, bfloat16, int32 and int64.
[[nodiscard]] bool can_fold(ncclDataType_t type, ncclRedOp_t operation);
/// into[i] = into[i] OP from[i], in the type's own precision.
void fold(void* into, const void* from, std::size_t count, ncclDataType_t type, ncclRedOp_t operation);

}  // namespace sft::emulation
