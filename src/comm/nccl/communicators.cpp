#include "communicators.hpp"

#include <exception>

namespace sft::comm {

NcclCommunicators::NcclCommunicators(device::WaitChecks& checks) : checks_(checks) {
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

NcclCommunicator& NcclCommunicators::of(const Group& group) {
  for (const auto& communicator : all_) {
    if (communicator->group() == group) return *communicator;
  }
  return *all_.emplace_back(std::make_unique<NcclCommunicator>(group, checks_));
}

}  // namespace sft::comm
