// SPDX-License-Identifier: Apache-2.0
// A program that ends in the way its first argument says; see program_test.cpp.

#include <stdexcept>
#include <string>
#include <thread>

#include "sft/comm/session.hpp"
#include "support/barrier.hpp"

namespace {

using namespace sft;

/// Something that waits for all ranks when it is destroyed, as a loader or a writer may.
struct WaitsForAll {
  const comm::Group& group;
  ~WaitsForAll() { sft::test::barrier(group); }
};

int run(comm::Session& session, const std::string& ending) {
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
  return comm::run_program(argc, argv, [&](comm::Session& session) { return run(session, argv[1]); });
}
