// SPDX-License-Identifier: Apache-2.0
#pragma once
// What keeps collectives out of the work of Group::agree: a flag of the thread that runs it, which alone calls MPI.

#include <stdexcept>
#include <string>
#include <utility>

#include "sft/comm/group.hpp"

namespace sft::comm {

namespace detail {

/// The group of the innermost Agreement of this thread; null outside of all.
inline thread_local const Group* agreeing = nullptr;

}  // namespace detail

/// While it lives, this thread runs the work of an agree() over `group`, which outlives it. May be nested.
class Agreement {
 public:
  explicit Agreement(const Group& group) : outer_(std::exchange(detail::agreeing, &group)) {}
  ~Agreement() { detail::agreeing = outer_; }
  Agreement(const Agreement&) = delete;
  Agreement& operator=(const Agreement&) = delete;

 private:
  const Group* const outer_;
};

/// Every collective over `group` begins with it: throws std::logic_error, which names `call` and the agree() with their
/// groups, inside an Agreement. Never for a group of one rank: nobody waits there.
inline void refuse_inside_agree(const Group& group, const char* call) {
  if (detail::agreeing == nullptr || group.size() == 1) return;
  throw std::logic_error("internal error: " + std::string(call) + " over group " + group.name() +
                         " is called inside the work of agree over group " + detail::agreeing->name() +
                         ", where a rank that fails would leave the others waiting in it");
}

}  // namespace sft::comm
