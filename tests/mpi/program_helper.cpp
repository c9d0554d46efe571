// SPDX-License-Identifier: Apache-2.0
// A program that ends in the way its first argument says; see program_test.cpp.

#include <chrono>
#include <csignal>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/comm/session.hpp"
#include "sft/comm/watch.hpp"
#include "sft/core/activity.hpp"
#include "sft/device/factory.hpp"
#include "support/barrier.hpp"

namespace {

using namespace sft;

/// Something that waits for all ranks when it is destroyed, as a loader or a writer may.
struct WaitsForAll {
  const comm::Group& group;
  ~WaitsForAll() { sft::test::barrier(group); }
};

/// All ranks but the last sum something.
void wait_for_a_rank_that_does_not_come(const comm::Session& session) {
  const comm::Group& world = session.world();
  comm::Watch watch(session, /*timeout_s=*/1, "");
  watch.begin_steps();
  const auto device = device::make_device(device::Kind::cpu, {.num_local_ranks = world.size()});
  const auto collectives = comm::make_collectives(*device, {world}, {.way = comm::Transport::Way::host_copy});
  const auto stream = device->make_stream();
  device::Ledger ledger;
  device::Arena arena(*device, ledger, device::Label::communication, std::size_t{64} << 20, device::Space::pinned);
  collectives->set_staging(comm::take_host_staging(arena, {}));
  float value = 1;
  if (world.rank() + 1 < world.size()) {
    const comm::CallSubject subject("a number");
    collectives->all_reduce(world, Tensor(&value, DType::float32, {1}), comm::ReduceOp::sum, *stream);
  } else {
    const Activity reading(ActivityKind::reads, "reading rows");
    std::this_thread::sleep_for(std::chrono::minutes(1));
  }
}

/// Two nodes of two ranks, the second of which gets on for six seconds, and then has a rank that is stopped.
void wait_for_another_node(const comm::Session& session, const std::string& folder) {
  const comm::Group& world = session.world();
  const comm::Group node = world.split(world.rank() / 2, world.rank(), "node");
  comm::Watch watch(world, node, /*timeout_s=*/4, folder);
  watch.begin_steps();
  if (world.rank() == 3) {
    for (int i = 0; i < 600; ++i) {
      note_progress();
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    std::fprintf(stderr, "it stops now\n");
    const Activity saving(ActivityKind::saves, "saving");
    std::raise(SIGSTOP);
  }
  sft::test::barrier(world);
}

/// Two nodes of two ranks, the second of which is gone, as far as the first can see.
void wait_for_a_node_that_is_gone(const comm::Session& session, const std::string& folder) {
  const comm::Group& world = session.world();
  const comm::Group node = world.split(world.rank() / 2, world.rank(), "node");
  comm::Watch watch(world, node, /*timeout_s=*/2, folder);
  watch.begin_steps();
  sft::test::barrier(world);
  if (world.rank() >= 2) std::raise(SIGSTOP);
  sft::test::barrier(world);
}

int run(comm::Session& session, const std::vector<std::string>& arguments) {
  const std::string& ending = arguments.front();
  const comm::Group& world = session.world();
  const int last = world.size() - 1;
  if (ending == "status") return 75;
  if (ending == "shared") {
    world.agree([&] {
      if (world.rank() == last) throw_data_error("damaged shard", "its checksum differs", "prepare it again");
    });
  }
  if (ending == "error") {
    const WaitsForAll waits{world};
    if (world.rank() == last) throw Error(ExitStatus::numerical, "loss is NaN");
    sft::test::barrier(world);
  }
  if (ending == "exception") {
    if (world.rank() == last) throw std::runtime_error("broken");
    sft::test::barrier(world);
  }
  if (ending == "hang") wait_for_a_rank_that_does_not_come(session);
  if (ending == "other_node") wait_for_another_node(session, arguments.at(1));
  if (ending == "gone_node") wait_for_a_node_that_is_gone(session, arguments.at(1));
  if (ending == "thread") {
    if (world.rank() == last) {
      std::thread([] { throw Error(ExitStatus::data, "cannot read"); }).join();
    }
    sft::test::barrier(world);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  return comm::run_program(argc, argv, [&](comm::Session& session) { return run(session, arguments); });
}
