// SPDX-License-Identifier: Apache-2.0
#include "environment.hpp"

#include <cstdlib>
#include <string_view>

namespace sft::comm {

namespace {

/// Which algorithms NCCL may use: a list for all collectives, then one for each that has its own; ^ leaves out.
constexpr const char* sums_by_rings_and_trees =
    "^collnetdirect,collnetchain;allreduce:^collnetdirect,collnetchain,nvls,nvlstree;"
    "reducescatter:^collnetdirect,collnetchain,nvls,nvlstree;reduce:^collnetdirect,collnetchain,nvls,nvlstree";

}  // namespace

std::vector<std::pair<std::string, std::string>> nccl_variables(const UserVariable& user) {
  std::vector<std::pair<std::string, std::string>> variables;
  const auto set = [&](const char* name, const char* value) {
    if (user(name) == nullptr) variables.emplace_back(name, value);
  };
  // Several communicators are used on several streams. Their kernels start in the order of the host's calls, which is
  // the same on all ranks; without it two ranks may start them in different orders and wait for each other for ever.
  set("NCCL_LAUNCH_ORDER_IMPLICIT", "1");
  set("NCCL_NVLS_ENABLE", "0");
  set("NCCL_COLLNET_ENABLE", "0");
  const char* nvls = user("NCCL_NVLS_ENABLE");
  if (nvls != nullptr && std::string_view(nvls) != "0") set("NCCL_ALGO", sums_by_rings_and_trees);
  // All connections of collectives are made with the communicator, not at their first use in a step, so that their
  // memory is in what is measured at the start.
  set("NCCL_RUNTIME_CONNECT", "0");
  return variables;
}

void set_nccl_environment() {
  for (const auto& [name, value] : nccl_variables([](const char* name) { return std::getenv(name); })) {
    setenv(name.c_str(), value.c_str(), /*overwrite=*/0);
  }
}

}  // namespace sft::comm
