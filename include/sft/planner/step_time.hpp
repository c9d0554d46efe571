// SPDX-License-Identifier: Apache-2.0
#pragma once
// How long a step takes on a machine, before it runs: the step that `sft` makes, rehearsed over a device of clocks.

#include <string>
#include <utility>
#include <vector>

#include "sft/config/valid_config.hpp"
#include "sft/mesh/place.hpp"
#include "sft/rank/machine.hpp"
#include "sft/rows/micro_batch_limits.hpp"
#include "sft/simulator/hardware.hpp"
#include "sft/simulator/op_kind.hpp"

namespace sft::planner {

/// Seconds in which a rank's compute stream does nothing but wait for this.
struct Exposed {
  std::string what;  ///< a stream ("gathers", "communication", "ring"), or the group of a call that ops wait for ("tp")
  double seconds;
};

struct StepTime {
  double step_s = 0;
  double ops_s = 0;                  ///< of it, in which the rank computes
  simulator::OpTimes op_times = {};  ///< of ops_s, by kind of op
  double model_flops = 0;            ///< of the step, all ranks: 6 for a weight and token, and those of attention
  std::vector<Exposed> exposed;      ///< the longest first

  [[nodiscard]] double exposed_s() const;
  /// model_flops of all ranks' peak in that time; 0 where the peak is not known.
  [[nodiscard]] double mfu(const simulator::Hardware& hardware) const;
};

/// A step of the rank at `place` whose micro-batches are all of documents of these lengths, taken to be as long as that
/// of all others; the ranks of the mesh fill the nodes of `hardware` in order. Pure. State in files is taken to be read
/// and written at write_bytes_per_s while nothing else happens.
[[nodiscard]] StepTime plan_step_time(const config::ValidConfig& config, const std::vector<std::int32_t>& documents,
                                      const mesh::Place& place, const rank::Machine& machine,
                                      const simulator::Hardware& hardware);

/// The same of full micro-batches (`limits`).
[[nodiscard]] StepTime plan_step_time(const config::ValidConfig& config, const rows::MicroBatchLimits& limits,
                                      const mesh::Place& place, const rank::Machine& machine,
                                      const simulator::Hardware& hardware);

/// Seconds of a whole run of so many steps, from the launcher on. Pure.
[[nodiscard]] double run_s(std::int64_t num_steps, const StepTime& time, const simulator::Hardware& hardware);

/// "3.1 s on h200x8, 61 % MFU; of it waiting: gathers 0.2 s (6 %), tp 0.1 s (3 %)".
[[nodiscard]] std::string describe(const StepTime& time, const simulator::Hardware& hardware);

/// "products 62 %, attention 27 %, norms and rotations 3 %": what a step spends on ops, of its time, the longest first;
/// the rest is what it waits. Pure.
[[nodiscard]] std::string describe_ops(const StepTime& time);
/// {"products_forward", 0.16}, ...: seconds of each kind of op that takes any. Pure.
[[nodiscard]] std::vector<std::pair<std::string, double>> named_op_times(const StepTime& time);

}  // namespace sft::planner
