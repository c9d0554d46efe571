// SPDX-License-Identifier: Apache-2.0
#pragma once
// Variables of the environment that NCCL reads at its first call.

#include <functional>
#include <string>
#include <utility>
#include <vector>

namespace sft::comm {

/// What getenv() says: null where the user has not set it.
using UserVariable = std::function<const char*(const char* name)>;

/// The variables that this program relies on, of those that the user has not set. Pure.
///
/// Sums inside switches (NVLS on NVLink, CollNet on InfiniBand) may change their order from call to call; rings and
/// trees keep it. See github.com/NVIDIA/nccl/issues/1497. So both are off. A user who sets NCCL_NVLS_ENABLE gets NVLS
/// for gathers, which only copy, and NCCL_ALGO keeps sums out of the switches. It is not on by itself, because NCCL
/// takes memory of every GPU for it in each communicator.
[[nodiscard]] std::vector<std::pair<std::string, std::string>> nccl_variables(const UserVariable& user);

/// Sets them. Before the first call of NCCL, which reads them once.
void set_nccl_environment();

}  // namespace sft::comm
