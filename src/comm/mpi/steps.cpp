// SPDX-License-Identifier: Apache-2.0
#include "steps.hpp"

namespace sft::comm {

bool Steps::test() {
  while (transfers_.test()) {
    if (num_started_ == steps_.size()) return true;
    steps_[num_started_++](transfers_);
  }
  return false;
}

}  // namespace sft::comm
