// SPDX-License-Identifier: Apache-2.0
#include "comm/mpi/communicator.hpp"  // another room's private header: refused
#include "sft/comm/group.hpp"
#include "sft/core/error.hpp"
#include "sft/device/stream.hpp"

namespace sft::mesh {
void shift(const Tensor& x);  // refused
}
