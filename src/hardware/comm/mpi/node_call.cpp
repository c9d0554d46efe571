// SPDX-License-Identifier: Apache-2.0
#include "node_call.hpp"

namespace sft::comm {

bool NodeCall::test() {
  if (advance()) return true;
  let_messages_go_on();
  return false;
}

bool NodeCall::advance() {
  if (stage_ == 0) {
    if (!site_.window.begin(site_.call, offset_)) return false;
    stage_ = 1;
  }
  while (transfers_.test()) {
    const bool is_at_end = num_started_ == steps_.size();
    if (num_started_ == 0 || is_at_end || steps_[num_started_].waits_for_node) {
      if (num_noted_ != num_started_) {
        site_.window.note(site_.call, ++stage_);
        num_noted_ = num_started_;
      }
      if (!site_.window.have_all_reached(site_.call, stage_)) return false;
    }
    if (is_at_end) {
      site_.window.finish(site_.call);
      return true;
    }
    steps_[num_started_++].work(site_, transfers_);
  }
  return false;
}

}  // namespace sft::comm
