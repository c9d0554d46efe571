// SPDX-License-Identifier: Apache-2.0
#include "window_call.hpp"

#include <mpi.h>

namespace sft::comm {

namespace {

/// Lets MPI send what is still on its way. It works only inside its calls, and a message that has been received may
/// still have to be acknowledged: its sender would wait forever for a rank that waits for it in a window.
void let_messages_go_on() {
  int is_there = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_SELF, &is_there, MPI_STATUS_IGNORE);
}

}  // namespace

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
