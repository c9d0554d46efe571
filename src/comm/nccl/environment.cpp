// SPDX-License-Identifier: Apache-2.0
#include "environment.hpp"

#include <nccl.h>

#include <cstdlib>
#include <string>
#include <utility>

#include "sft/core/error.hpp"

namespace sft::comm {

namespace {

constexpr std::pair<const char*, const char*> variables[] = {
    // Several communicators are used on several streams. Their kernels start in the order of the host's calls, which is
    // the same on all ranks; without it two ranks may start them in different orders and wait for each other for ever.
    {"NCCL_LAUNCH_ORDER_IMPLICIT", "1"},
    // Sums inside switches (NVLS on NVLink, CollNet on InfiniBand) may change their order from call to call; rings and
    // trees keep it. See github.com/NVIDIA/nccl/issues/1497.
    {"NCCL_NVLS_ENABLE", "0"},
    {"NCCL_COLLNET_ENABLE", "0"},
    // All connections of collectives are made with the communicator, not at their first use in a step, so that their
    // memory is in what is measured at the start.
    {"NCCL_RUNTIME_CONNECT", "0"},
};

constexpr int least_version = 22600;  // the first that knows NCCL_LAUNCH_ORDER_IMPLICIT

std::string version_text(int version) {
  return std::to_string(version / 10000) + "." + std::to_string(version / 100 % 100) + "." +
         std::to_string(version % 100);
}

}  // namespace

void set_nccl_environment() {
  for (const auto& [name, value] : variables) setenv(name, value, /*overwrite=*/0);
}

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

}  // namespace sft::comm
