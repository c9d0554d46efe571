// SPDX-License-Identifier: Apache-2.0
#include "window_call.hpp"

#include "transfers.hpp"

namespace sft::comm {

bool WindowCall::test() {
  if (advance()) return true;
  let_messages_go_on();
  return false;
}

bool WindowCall::advance() {
  if (stage_ == 0) {
    if (!site_.window.begin(site_.call, offset_)) return false;
    stage_ = 1;
  }
  while (site_.window.have_all_reached(site_.call, stage_)) {
    if (stage_ == rounds_.size() + 1) {
      site_.window.finish(site_.call);
      if (at_end_) at_end_();
      return true;
    }
    rounds_[stage_ - 1](site_);
    site_.window.note(site_.call, ++stage_);
  }
  return false;
}

}  // namespace sft::comm
