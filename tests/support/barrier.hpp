// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>

#include "sft/comm/group.hpp"

namespace sft::test {

/// Waits for all ranks of `group`. Collective.
inline void barrier(const comm::Group& group) {
  double nothing = 0.0;
  group.sum(std::span(&nothing, 1));
}

}  // namespace sft::test
