// SPDX-License-Identifier: Apache-2.0
#pragma once
// Collectives as a step makes them: over groups of one form, all of them at the same time, in memory such as that of
// units and gradients.

#include <functional>
#include <vector>

#include "op_trial.hpp"
#include "sft/check/check_machine.hpp"
#include "sft/simulator/clocked_collectives.hpp"

namespace sft::check {

/// What the calls of every kind take over groups of `span`, to which the ranks of the world are dealt: neighbours on
/// each node, over neighbouring nodes. Nodes have `ranks_per_node` ranks, numbered node by node. Collective.
[[nodiscard]] std::vector<simulator::MeasuredCalls> measure_calls(const CheckedMachine& machine,
                                                                  const simulator::Span& span, int ranks_per_node,
                                                                  double window_s);

/// Waits of ranks for each other at simulator::waited_calls over such groups, by the time that they did `work` before:
/// the time of work and call, less that of the call and of the work alone. Collective.
[[nodiscard]] std::vector<simulator::MeasuredWaits> measure_waits(const CheckedMachine& machine,
                                                                  const simulator::Span& span, int ranks_per_node,
                                                                  double window_s, const std::function<void()>& work);

}  // namespace sft::check
