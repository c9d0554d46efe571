// SPDX-License-Identifier: Apache-2.0
#pragma once
// Collectives that send nothing, and move the clock of a clocked stream (clocked_device.hpp) on by the time that
// they would take.

#include <array>
#include <functional>
#include <string>
#include <vector>

#include "sft/comm/collectives.hpp"

namespace sft::simulator {

/// What a rank is connected by.
struct Link {
  double bytes_per_s = 0;  ///< that it sends, while it receives as many
  double hop_s = 0;        ///< of a message from one rank to the next
};

/// Where the ranks of a group are: on so many nodes, so many on each.
struct Span {
  int num_nodes = 1;
  int ranks_per_node = 1;

  bool operator==(const Span&) const = default;
};

/// What calls of one kind took over groups of one form, all of them at the same time.
struct MeasuredCalls {
  struct Point {
    double bytes;  ///< bytes_of(call); of an exchange what a rank sends
    double seconds;
  };

  std::string call;  ///< name_of(call)
  Span span;
  std::vector<Point> points;  ///< by rising bytes, two at least
};

/// What ranks of CPUs wait for each other at calls of one kind over groups of one form, all of them at the same time:
/// until the slowest is there, and, where they take turns on the cores of their node, until the last one has had its
/// turn and those that slept have woken.
struct MeasuredWaits {
  struct Point {
    double computed_s;  ///< by a rank, since the call before
    double wait_s;      ///< beside the time of the call
  };

  std::string call;  ///< name_of(call)
  Span span;
  std::vector<Point> points;  ///< by rising computed_s, one at least; without computing none waits
};

/// The links of a machine whose nodes are alike.
struct Network {
  Link within, between;  ///< nodes
  double call_s = 0;     ///< of every call beside its hops
  /// What was measured, which goes before the links.
  std::vector<MeasuredCalls> measured = {};
  /// Of ranks on CPUs; empty on GPUs, and where nothing is known of them.
  std::vector<MeasuredWaits> waits = {};
};

/// How long a call takes. Reductions and gathers go round a ring that enters and leaves each node once, and is cut into
/// as many as a node has ranks of the group, each of which has a link of its own between nodes; an all-reduce goes over
/// a tree of nodes where that is faster. Latencies as in NCCL's model (ncclTopoTuneModel): the calls' own, and one of
/// each hop. What several groups send at the same time over one link is not seen. Where calls of the kind were measured
/// within a node, or between nodes, the time is that of the group whose form is nearest, by the bytes that each rank
/// sends. Pure.
[[nodiscard]] double call_time_s(const comm::Call& call, const comm::Group& group, const Span& span,
                                 const Network& network);

/// The calls whose waits stand for all: of those that a node does in shared memory, and of those that send messages, in
/// which a rank has to take part several times.
inline constexpr std::array<const char*, 2> waited_calls{"all_reduce", "exchange_all"};

/// What a rank waits at a call over a group whose ranks have computed so long since they last met, by the waits of
/// `network` of the form that is nearest; along the lines through the points, also behind the last one. Pure.
[[nodiscard]] double wait_s(const comm::Call& call, double computed_s, const Span& span, const Network& network);

/// What the calls over a group took.
struct GroupTime {
  std::string group;  ///< its name
  double all_s = 0;
  double on_compute_s = 0;  ///< of the calls on streams that are not for communication: nothing runs beside them
};

class ClockedCollectives final : public comm::Collectives {
 public:
  /// `span_of` says where the ranks of a group are.
  ClockedCollectives(const Network& network, std::function<Span(const comm::Group&)> span_of)
      : network_(network), span_of_(std::move(span_of)) {}

  /// `stream` is a clocked one. A group of one rank takes no time. On a stream that computes a rank also waits for the
  /// others; on another one the call is over so much later, which computing hides. What ranks waited in smaller groups
  /// since they last met they do not wait once more.
  void run(const comm::Group& group, const comm::Call& call, device::Stream& stream) override;
  /// std::logic_error: planning allocates nothing.
  [[nodiscard]] device::Device::Block allocate_shared(const comm::Group& group, comm::MemoryUse use,
                                                      std::size_t bytes) override;
  [[nodiscard]] device::Device::Block allocate_own(const comm::Group& group, std::size_t bytes) override;
  void set_staging(const comm::StagingMemory& /*staging*/) override {}

  /// In the order of the first calls.
  [[nodiscard]] const std::vector<GroupTime>& times() const { return times_; }

 private:
  /// That of a call over so many ranks, the last one.
  struct Meeting {
    int size;
    double time_s;    ///< when it ended
    double waited_s;  ///< total_wait_s_ then
  };

  /// What the ranks of a call that begins now wait for each other.
  [[nodiscard]] double next_wait_s(const comm::Call& call, const comm::Group& group, const Span& span,
                                   double now_s) const;
  void note_meeting(const comm::Group& group, double now_s);

  const Network network_;
  const std::function<Span(const comm::Group&)> span_of_;
  std::vector<GroupTime> times_;
  std::vector<Meeting> meetings_;  ///< one of a size
  double total_wait_s_ = 0;
};

}  // namespace sft::simulator
