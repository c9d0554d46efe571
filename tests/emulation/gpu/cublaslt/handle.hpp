// SPDX-License-Identifier: Apache-2.0
#pragma once
// Handles of the emulated cuBLASLt.

#include <cublasLt.h>

#include <string>

namespace sft::emulation {

/// Whether cublasLtCreate made it and cublasLtDestroy has not ended it.
[[nodiscard]] bool is_alive(cublasLtHandle_t handle);
/// The device that was current when it was made.
[[nodiscard]] int device_of(cublasLtHandle_t handle);

/// Why this process's last cublasLtMatmul was refused; empty when it was not.
[[nodiscard]] std::string last_refusal();
void set_last_refusal(const std::string& why);

}  // namespace sft::emulation
