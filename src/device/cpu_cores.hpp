#pragma once
// The processor cores of this process.

namespace sft::device {

/// Sets the number of OpenMP threads of this process: OMP_NUM_THREADS where set, else an equal share of the node's
/// cores for each of its `num_local_ranks` ranks. Warns when the launcher bound this process to fewer cores than that.
void set_num_threads(int num_local_ranks);

/// Whether the node has more ranks than cores.
[[nodiscard]] bool ranks_share_cores(int num_local_ranks);

}  // namespace sft::device
