// SPDX-License-Identifier: Apache-2.0
#pragma once
// Measures a machine for plans of time: `sft --check --write_machine FILE`, and `sft-plan --machine here`.

#include <string>

#include "sft/check/check_machine.hpp"
#include "sft/simulator/hardware.hpp"

namespace sft::check {

/// What ranks of this machine do in a second while all of them work at once, as they do in a step: products of many
/// shapes, attention, other ops of each kind, and each collective over groups of all sizes within a node and over all
/// nodes. Where ranks share cores, so do the rates. In the dtype of machine.config's precision. `start_s`: from the
/// start of the process to here. `folder`: where checkpoints will be written, which is tried with one file for each
/// rank. The same on every rank. Collective over the world; takes some seconds, longer where ranks share cores. Nodes
/// have equally many ranks, numbered node by node, or it throws a configuration Error on every rank.
[[nodiscard]] simulator::Hardware measure_machine(const CheckedMachine& machine, const std::string& folder,
                                                  double start_s);

}  // namespace sft::check
