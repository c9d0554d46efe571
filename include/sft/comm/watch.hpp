// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ends a run that stands still, and says who it waits for: a rank that is lost, stopped or held by a disk would else
// keep all others waiting until the batch system's time is up.

#include <memory>
#include <string>

#include "sft/comm/session.hpp"

namespace sft::comm {

/// Looks after this rank from construction to destruction.
///
/// The ranks of a node note in memory that they share what they are doing (core/activity.hpp) and whether they get on.
/// A thread of each, which calls no MPI, reads the notes of all of them. When a rank waits for others, reads rows or
/// saves, and no rank of the node has got on for the timeout, the first rank whose thread runs prints the line of
/// hang_error on standard error, and all end with ExitStatus::hang, upon which the launcher ends the
/// others. Time in which the process itself was stopped does not count. So a run that is merely slow goes on: somebody
/// in it always gets on.
///
/// Nodes tell each other by files in `folder`/hang while one of them stands still (node_reports.hpp): it goes on
/// waiting for a node that gets on, and one of them prints the line for all.
class Watch {
 public:
  /// `timeout_s`: 0, nobody looks. Until begin_steps() it is slow_factor times as long: programs are loaded, memory is
  /// touched for the first time, weights are read. So it is when all that is waited for is a rank that saves. `folder`:
  /// of the run, seen by all nodes, need not be there yet; empty: nodes tell each other nothing. Collective over the
  /// session's world.
  Watch(const Session& session, double timeout_s, const std::string& folder);
  /// With a `node` of the caller's choice, for tests of several nodes.
  Watch(const Group& world, const Group& node, double timeout_s, const std::string& folder);
  /// Collective over the node.
  ~Watch();
  Watch(const Watch&) = delete;
  Watch& operator=(const Watch&) = delete;

  static constexpr double slow_factor = 6.0;

  /// The first step is done.
  void begin_steps();

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;  ///< none where nobody looks
};

}  // namespace sft::comm
