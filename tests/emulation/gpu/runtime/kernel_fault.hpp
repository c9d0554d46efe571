// SPDX-License-Identifier: Apache-2.0
#pragma once
// A kernel that breaks off, as one that touches memory which is not there does on a real GPU.

namespace sft::emulation {

/// Whether the kernel `name`, which is about to run, is the one that SFT_EMULATED_KERNEL_FAULT=NAME[:N] means: the
/// N-th, from 1 on, of all that run and have NAME in their names. If so, has_fault() from now on.
[[nodiscard]] bool is_faulty(const char* name);

/// Whether a kernel broke off: nothing that is queued runs any more, and the runtime's calls fail.
[[nodiscard]] bool has_fault();

}  // namespace sft::emulation
