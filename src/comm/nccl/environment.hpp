// SPDX-License-Identifier: Apache-2.0
#pragma once
// What NCCL is told through its environment, and which versions of it will do.

namespace sft::comm {

/// Sets NCCL's variables that this program relies on, unless the user has set them. Before the first call of NCCL,
/// which reads them once.
void set_nccl_environment();

/// Throws a configuration Error unless the NCCL that runs is new enough.
void require_nccl_version();

}  // namespace sft::comm
