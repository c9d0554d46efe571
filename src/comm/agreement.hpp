// SPDX-License-Identifier: Apache-2.0
#pragma once
// What keeps collectives out of the work of Group::agree: a flag of the thread that runs it, which alone calls MPI.

#include "sft/comm/group.hpp"

namespace sft::comm {

/// While it lives, this thread runs the work of an agree() over `group`, which outlives it. May be nested.
class Agreement {
 public:
  explicit Agreement(const Group& group);
  ~Agreement();
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;

 private:
  const Group* const outer_;
};

/// Every collective over `group` begins with it: throws std::logic_error, which names `call` and the agree() with their
/// groups, inside an Agreement. Never for a group of one rank: nobody waits there.
void refuse_inside_agree(const Group& group, const char* call);

}  // namespace sft::comm
