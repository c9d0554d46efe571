// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

#include "sft/comm/collectives.hpp"

namespace sft::test {

/// Memory of the collectives, shared where they share some. Collective over `group`.
inline device::Device::Block allocate_for_collectives(comm::Collectives& collectives, const comm::Group& group,
                                                      comm::MemoryUse use, std::size_t bytes) {
  device::Device::Block shared = collectives.allocate_shared(group, use, bytes);
  return shared != nullptr ? std::move(shared) : collectives.allocate_own(group, bytes);
}

}  // namespace sft::test
