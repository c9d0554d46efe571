// SPDX-License-Identifier: Apache-2.0
#include "communicators.hpp"

#include <nccl.h>

#include <cstdlib>
#include <exception>
#include <stdexcept>
#include <string>

#include "environment.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"

namespace sft::comm {

namespace {

constexpr int least_version = 22600;  // the first that knows NCCL_LAUNCH_ORDER_IMPLICIT

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

/// Throws a configuration Error unless the NCCL that runs is new enough.
void require_nccl_version() {
  int version = 0;
  const ncclResult_t result = ncclGetVersion(&version);
  if (result == ncclSuccess && version >= least_version) return;
  throw_config_error("NCCL cannot be used",
                     result == ncclSuccess ? "it is version " + version_text(version) +
                                                 ", and collectives on several "
                                                 "streams need " +
                                                 version_text(least_version) + " or later"
                                           : ncclGetErrorString(result),
                     "install a newer NCCL, or set [device] comm = host");
}

std::vector<std::string> names_of(const std::vector<TensorGroup>& groups) {
  std::vector<std::string> names;
  for (const TensorGroup& group : groups) names.push_back(group.group.name());
  return names;
}

/// Ends this process, and by it the run: not with MPI_Abort, which the thread of a Watch may not call.
[[noreturn]] void end_with(const Error& error) {
  log_error(error.what());
  std::_Exit(static_cast<int>(error.status()));
}

int gpu_of_this_thread() {
  int gpu = 0;
  (void)cudaGetDevice(&gpu);  // GPU 0 as well where that fails, as the next call does then
  return gpu;
}

}  // namespace

NcclCommunicators::NcclCommunicators(const std::vector<TensorGroup>& groups, device::WaitChecks& checks)
    : checks_(checks), gpu_(gpu_of_this_thread()), log_(names_of(groups)) {
  if (groups.empty()) return;
  set_nccl_environment();
  require_nccl_version();
  add_call_probe(this, [this] { return look(); });
  for (const TensorGroup& group : groups) {
    const NcclCommunicator* within = group.within == Group() ? nullptr : &of(group.within);
    auto communicator = std::make_unique<NcclCommunicator>(group, all_.size(), log_, within);
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
  remove_call_probe(this);
}

std::string NcclCommunicators::look() {
  // The runtime would else make a context on GPU 0 for this thread.
  if (cudaSetDevice(gpu_) != cudaSuccess) return log_.describe();
  const std::lock_guard lock(mutex_);
  for (const auto& communicator : all_) {
    communicator->notice_finished();
    if (const auto error = communicator->failure()) end_with(*error);
  }
  return log_.describe();
}

NcclCommunicator& NcclCommunicators::of(const Group& group) const {
  for (const auto& communicator : all_) {
    if (communicator->group() == group) return *communicator;
  }
  throw std::logic_error("group " + group.name() + " was not given to make_collectives");
}

}  // namespace sft::comm
