// SPDX-License-Identifier: Apache-2.0
#include "agreement.hpp"

#include <stdexcept>
#include <string>
#include <utility>

namespace sft::comm {

namespace {

thread_local const Group* agreeing = nullptr;  ///< the group of the innermost Agreement

}  // namespace

Agreement::Agreement(const Group& group) : outer_(std::exchange(agreeing, &group)) {}
Agreement::~Agreement() { agreeing = outer_; }

void refuse_inside_agree(const Group& group, const char* call) {
  if (agreeing == nullptr || group.size() == 1) return;
  throw std::logic_error("internal error: " + std::string(call) + " over group " + group.name() +
                         " is called inside the work of agree over group " + agreeing->name() +
                         ", where a rank that fails would leave the others waiting in it");
}

}  // namespace sft::comm
