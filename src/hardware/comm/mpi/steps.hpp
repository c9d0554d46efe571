// SPDX-License-Identifier: Apache-2.0
#pragma once
// A collective as work of a CPU stream.

#include <functional>
#include <vector>

#include "collective_work.hpp"
#include "transfers.hpp"

namespace sft::comm {

/// Steps that run one after the other, each when the messages that the former one posted are through. A step does local
/// work (sums what has arrived) and posts messages.
class Steps final : public CollectiveWork {
 public:
  using Step = std::function<void(Transfers&)>;
  Steps(const Group& group, const char* collective, std::vector<Step> steps)
      : CollectiveWork(group, collective),
        transfers_(group, collective, group.impl().next_tag()),
        steps_(std::move(steps)) {}

  bool test() override {
    while (transfers_.test()) {
      if (num_started_ == steps_.size()) return true;
      steps_[num_started_++](transfers_);
    }
    return false;
  }

 private:
  Transfers transfers_;
  std::vector<Step> steps_;
  std::size_t num_started_ = 0;
};

}  // namespace sft::comm
