// SPDX-License-Identifier: Apache-2.0
#pragma once
// How this process uses the cores of its node.

namespace sft::device {

/// Sets the number of OpenMP threads of this process to num_threads_of_rank(). Warns when the launcher bound this
/// process to fewer cores than that takes.
void set_num_threads(int num_local_ranks);

/// Whether the node has more ranks than cores.
[[nodiscard]] bool ranks_share_cores(int num_local_ranks);

}  // namespace sft::device
