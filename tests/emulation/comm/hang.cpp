// SPDX-License-Identifier: Apache-2.0
// A program in which a rank never comes to a call of NCCL: SFT_EMULATED_NCCL_HANG says to which.

#include "sft/comm/collectives.hpp"
#include "sft/comm/session.hpp"
#include "sft/comm/watch.hpp"
#include "sft/device/factory.hpp"

namespace {

using namespace sft;

int run(comm::Session& session) {
  const comm::Group& world = session.world();
  comm::Watch watch(session, 4, "");
  watch.begin_steps();
  const auto device = device::make_device(device::Kind::cuda, {.num_local_ranks = world.size(), .gpu = world.rank()});
  const comm::Group fsdp = world.split(0, world.rank(), "fsdp"), tp = world.split(0, world.rank(), "tp");
  const auto collectives = comm::make_collectives(*device, {{fsdp, false, 0}, {tp, false, 0}});
  const auto stream = device->make_stream(), other = device->make_stream();
  const auto memory = device->allocate(64);
  const Tensor values(memory.get(), DType::float32, {4});
  device->fill_zero(memory.get(), 64, *stream);
  for (int i = 0; i < 5; ++i) collectives->all_reduce(fsdp, values, comm::ReduceOp::sum, *stream);
  const Tensor more(static_cast<float*>(memory.get()) + 8, DType::float32, {2});
  collectives->all_gather(tp, more, more.rows(tp.rank(), 1), *other);
  other->synchronize();
  stream->synchronize();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return sft::comm::run_program(argc, argv, [](sft::comm::Session& session) { return run(session); });
}
