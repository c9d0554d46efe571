// SPDX-License-Identifier: Apache-2.0
#include "communicators.hpp"

#include <exception>
#include <stdexcept>

namespace sft::comm {

NcclCommunicators::NcclCommunicators(const std::vector<Group>& groups, device::WaitChecks& checks) : checks_(checks) {
  for (const Group& group : groups) all_.push_back(std::make_unique<NcclCommunicator>(group, checks));
  checks.add(this, [this] {
    for (const auto& communicator : all_) communicator->throw_if_failed();
  });
}

NcclCommunicators::~NcclCommunicators() {
  if (std::uncaught_exceptions() == 0) end();  // after an error others may not come to a common end
  checks_.remove(this);
}

void NcclCommunicators::end() {
  for (const auto& communicator : all_) communicator->finalize();
  for (const auto& communicator : all_) communicator->wait_finalized();
  for (const auto& communicator : all_) communicator->destroy();
}

NcclCommunicator& NcclCommunicators::of(const Group& group) const {
  for (const auto& communicator : all_) {
    if (communicator->group() == group) return *communicator;
  }
  throw std::logic_error("group " + group.name() + " was not given to make_collectives");
}

}  // namespace sft::comm
