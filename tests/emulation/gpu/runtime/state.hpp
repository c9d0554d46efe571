// SPDX-License-Identifier: Apache-2.0
#pragma once
// The lock of the emulated runtime. CUDA may be called from any thread; whoever calls holds it.

#include <mutex>

namespace sft::emulation {

using Lock = std::lock_guard<std::recursive_mutex>;
/// Lives to the end of the process, also while other static objects are destroyed.
[[nodiscard]] std::recursive_mutex& mutex();

}  // namespace sft::emulation
