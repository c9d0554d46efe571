// SPDX-License-Identifier: Apache-2.0
#include "communicators.hpp"

#include <exception>
#include <stdexcept>
#include <utility>

#include "environment.hpp"

namespace sft::comm {

namespace {

int gpu_of_this_thread() {
  int gpu = 0;
  (void)cudaGetDevice(&gpu);  // GPU 0 as well where that fails, as the next call does then
  return gpu;
}

}  // namespace

NcclCommunicators::NcclCommunicators(const std::vector<TensorGroup>& groups, double timeout_s,
                                     device::WaitChecks& checks)
    : checks_(checks),
      gpu_(gpu_of_this_thread()),
      watchdog_(names_of(groups), timeout_s, {[this] { look(); }, end_at_standstill}) {
  if (groups.empty()) return;
  set_nccl_environment();
  require_nccl_version();
  for (const TensorGroup& group : groups) {
    auto communicator = std::make_unique<NcclCommunicator>(group, all_.size(), watchdog_);
    const std::lock_guard lock(mutex_);
    all_.push_back(std::move(communicator));
  }
  checks.add(this, [this] {
    for (const auto& communicator : all_) {
      communicator->throw_if_failed();
      communicator->notice_finished();
    }
  });
}

NcclCommunicators::~NcclCommunicators() {
  if (std::uncaught_exceptions() == 0) {  // after an error others may not come to a common end
    for (const auto& communicator : all_) communicator->end();
  }
  checks_.remove(this);
}

void NcclCommunicators::look() {
  // The runtime would else make a context on GPU 0 for this thread.
  if (cudaSetDevice(gpu_) != cudaSuccess) return;
  const std::lock_guard lock(mutex_);
  for (const auto& communicator : all_) {
    communicator->notice_finished();
    if (const auto error = communicator->failure()) end_at_standstill(error->what());
  }
}

NcclCommunicator& NcclCommunicators::of(const Group& group) const {
  for (const auto& communicator : all_) {
    if (communicator->group() == group) return *communicator;
  }
  throw std::logic_error("group " + group.name() + " was not given to make_collectives");
}

}  // namespace sft::comm
