// SPDX-License-Identifier: Apache-2.0
// NCCL on one rank, where the collectives leave it out: communicators, registered memory, every call that the
// collectives make, two communicators on two streams, and the common end.
#include <cstring>
#include <functional>
#include <memory>
#include <vector>

#include "comm/nccl/communicators.hpp"
#include "sft/device/factory.hpp"
#include "support/mpi_session.hpp"

namespace sft::test {

namespace {

constexpr std::size_t count = 10001;

cudaStream_t native(device::Stream& stream) { return static_cast<cudaStream_t>(stream.native()); }

/// Communicators over this rank, one for each of two groups.
struct Machine {
  const comm::Group& world = session().world();
  comm::Group other = world.split(0, world.rank(), "other");
  std::unique_ptr<device::Device> device = device::make_device(device::Kind::cuda);
  std::unique_ptr<device::Stream> stream = device->make_stream(device::Priority::communication),
                                  other_stream = device->make_stream();
  comm::NcclCommunicators communicators{{world, other}, device->wait_checks()};
};

/// `count` float32 numbers in memory of a communicator, all `value`.
struct Numbers {
  Numbers(Machine& machine_in, const comm::Group& group, device::Stream& stream_in, float value)
      : machine(machine_in),
        stream(stream_in),
        memory(machine.communicators.of(group).allocate(bytes)),
        pinned(machine.device->allocate(bytes, device::Space::pinned)) {
    for (std::size_t i = 0; i < count; ++i) host()[i] = value;
    machine.device->copy(memory.get(), pinned.get(), bytes, stream);
  }
  [[nodiscard]] float* host() const { return static_cast<float*>(pinned.get()); }
  [[nodiscard]] std::size_t num_different_from(float value) const {
    machine.device->copy(pinned.get(), memory.get(), bytes, stream);
    stream.synchronize();
    std::size_t num = 0;
    for (std::size_t i = 0; i < count; ++i) num += host()[i] == value ? 0 : 1;
    return num;
  }

  static constexpr std::size_t bytes = count * sizeof(float);
  Machine& machine;
  device::Stream& stream;
  device::Device::Block memory, pinned;
};

}  // namespace

BOOST_AUTO_TEST_CASE(every_call_gives_back_what_one_rank_gave) {
  BOOST_TEST_REQUIRE(session().world().size() == 1);
  Machine m;
  Numbers source(m, m.world, *m.stream, 1.5F), target(m, m.world, *m.stream, 0.0F);
  comm::NcclCommunicator& communicator = m.communicators.of(m.world);
  const cudaStream_t stream = native(*m.stream);
  const auto check = [&](const char* call, const std::function<ncclResult_t(ncclComm_t)>& launch) {
    m.device->fill_zero(target.memory.get(), Numbers::bytes, *m.stream);
    communicator.run(call, Numbers::bytes, stream, launch);
    BOOST_TEST(target.num_different_from(1.5F) == 0U, call);
  };
  void* const from = source.memory.get();
  void* const to = target.memory.get();
  check("ncclAllReduce",
        [&](ncclComm_t comm) { return ncclAllReduce(from, to, count, ncclFloat32, ncclSum, comm, stream); });
  check("ncclAllReduce, max",
        [&](ncclComm_t comm) { return ncclAllReduce(from, to, count, ncclFloat32, ncclMax, comm, stream); });
  check("ncclAllGather", [&](ncclComm_t comm) { return ncclAllGather(from, to, count, ncclFloat32, comm, stream); });
  check("ncclAllGather of bf16",
        [&](ncclComm_t comm) { return ncclAllGather(from, to, 2 * count, ncclBfloat16, comm, stream); });
  check("ncclReduceScatter",
        [&](ncclComm_t comm) { return ncclReduceScatter(from, to, count, ncclFloat32, ncclSum, comm, stream); });
  check("ncclSend and ncclRecv", [&](ncclComm_t comm) {
    ncclResult_t first_error = ncclGroupStart();
    const auto note = [&](ncclResult_t result) {
      if (first_error == ncclSuccess) first_error = result;
    };
    note(ncclSend(from, count, ncclFloat32, 0, comm, stream));
    note(ncclRecv(to, count, ncclFloat32, 0, comm, stream));
    note(ncclGroupEnd());
    return first_error;
  });
  communicator.throw_if_failed();
}

BOOST_AUTO_TEST_CASE(two_communicators_on_two_streams) {
  Machine m;
  Numbers first(m, m.world, *m.stream, 2.0F), second(m, m.other, *m.other_stream, 3.0F);
  const auto sum = [&](const comm::Group& group, device::Stream& stream, const Numbers& numbers) {
    void* const data = numbers.memory.get();
    m.communicators.of(group).run("ncclAllReduce", Numbers::bytes, native(stream), [&](ncclComm_t comm) {
      return ncclAllReduce(data, data, count, ncclFloat32, ncclSum, comm, native(stream));
    });
  };
  for (int i = 0; i < 30; ++i) {
    sum(m.world, *m.stream, first);
    sum(m.other, *m.other_stream, second);
  }
  BOOST_TEST(first.num_different_from(2.0F) == 0U);
  BOOST_TEST(second.num_different_from(3.0F) == 0U);
}

}  // namespace sft::test
