// SPDX-License-Identifier: Apache-2.0
#pragma once
// A collective of ranks on several nodes as work of a CPU stream: in each node on a shared window, between them by
// messages.

#include <functional>
#include <vector>

#include "collective_work.hpp"
#include "shared_window.hpp"
#include "transfers.hpp"

namespace sft::comm {

/// Steps that run one after the other, each when the messages that the former one posted are through. A step does local
/// work and posts messages. Some of them begin only when all ranks of the node have ended the step before: the first
/// one of all, for which they have to come to the call, and others by their own wish. The call is over when all ranks
/// of the node have ended the last step. Never blocks.
class NodeCall final : public CollectiveWork {
 public:
  /// In which call of which window a step works.
  struct Site {
    SharedWindow& window;
    std::uint64_t call;

    /// Of a rank of this node, by its number there.
    [[nodiscard]] std::byte* tensor(int neighbour) const { return window.tensor(call, neighbour); }
  };
  struct Step {
    std::function<void(const Site&, Transfers&)> work;
    bool waits_for_node = false;  ///< one step of a call may, besides the first
  };

  /// `group`: all ranks of the call, of which those on this node have `window`. `collective`: its name, a literal.
  /// `tensor`: this rank's, in the window, which outlives the call. At least one step.
  NodeCall(const Group& group, SharedWindow& window, const char* collective, const std::byte* tensor,
           std::vector<Step> steps)
      : CollectiveWork(group, collective),
        site_{window, window.next_call()},
        offset_(tensor - window.data(window.group().rank())),
        transfers_(group, collective, group.impl().next_tag()),
        steps_(std::move(steps)) {}

  bool test() override;

 private:
  /// Goes on as far as the others allow; true when the call is over.
  bool advance();

  Site site_;
  std::size_t offset_;
  Transfers transfers_;
  std::vector<Step> steps_;
  std::size_t num_started_ = 0;
  std::size_t num_noted_ = 0;  ///< steps whose end this rank has noted
  std::uint64_t stage_ = 0;    ///< that this rank has noted
};

}  // namespace sft::comm
