// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether a planned run fits, and how long it takes: the last two lines of a dry run.

#include <cstddef>
#include <cstdint>
#include <string>

#include "sft/device/kind.hpp"
#include "sft/planner/step_time.hpp"
#include "sft/rank/memory_table.hpp"
#include "sft/simulator/hardware.hpp"

namespace sft::planner {

/// The memory that there is for a run. 0: not known.
struct Room {
  std::size_t gpu_bytes = 0;   ///< of each GPU
  std::size_t node_bytes = 0;  ///< of each node
  int ranks_per_node = 1;
  bool takes_more_nodes = false;  ///< ranks that do not fit on one node go to more of them
  bool may_skip_copies = false;   ///< a save waits in place of a copy where a node has no room for that (async = auto)
  std::string whose;              ///< "--memory", "this node", "h100x8": where these numbers are from
};

/// The memory of a machine, without the share of its GPUs that plans leave free.
[[nodiscard]] Room room_of(const simulator::Hardware& hardware);

/// How a run compares with the room that there is.
struct Verdict {
  bool is_known = false;                  ///< whether anything was there to compare with
  bool is_of_gpu = false;                 ///< what is scarcer: the memory of a GPU, else that of a node
  std::size_t needed_bytes = 0;           ///< of that
  std::size_t present_bytes = 0;          ///< of that
  std::size_t lacking_bytes = 0;          ///< what a node lacks for copies of what is saved, which it goes without
  int ranks_per_node = 1, num_nodes = 1;  ///< what a node takes, and how many it takes for the ranks of the room

  [[nodiscard]] bool fits() const { return needed_bytes <= present_bytes; }
};

/// Compares the fullest rank with a GPU, and the ranks of a node, each taken to be as full as the fullest, with a node.
/// Pure.
[[nodiscard]] Verdict judge(const rank::MemoryTable& memory, device::Kind kind, const Room& room);

/// "fits: 43.4 GiB of 74.5 GiB (--memory), 31.1 GiB to spare"; empty where nothing is known. Pure.
[[nodiscard]] std::string describe(const Verdict& verdict, const rank::MemoryTable& memory, const Room& room);

/// "1400 steps of 3.1 s on h100x8: 1.21 hours". Pure.
[[nodiscard]] std::string describe_duration(std::int64_t num_steps, const StepTime& time,
                                            const simulator::Hardware& hardware);

}  // namespace sft::planner
