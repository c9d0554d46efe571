// SPDX-License-Identifier: Apache-2.0
#include <mpi.h>

#include "ops/cuda/launch.cuh"  // refused
#include "sft/comm/group.hpp"
#include "sft/core/error.hpp"

namespace sft::comm {
// A word on device::Stream is no use of it, nor is
const char* text = "device::Stream" R"(
  device::Stream
)";
int thousands = 1'000; /* device::Stream
device::Stream */
void wait(device::Stream& stream);  // its header came with tensor.hpp: refused
void wait(sft::device::Stream&, int = 1'000);  // refused
using namespace sft::device;                   // refused
void send(Tensor x);
void send(std::device::Stream x);
}  // namespace sft::comm
