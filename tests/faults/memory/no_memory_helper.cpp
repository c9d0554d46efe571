// SPDX-License-Identifier: Apache-2.0
// A program whose last rank lacks what the arguments say; see no_memory.sh.
//
//   no_memory_helper request N | activations FOLDER | moments FOLDER

#include <string>
#include <vector>

#include "scarce_engine.hpp"

namespace {

using namespace sft;

int run(comm::Session& session, const std::string& what, const std::string& argument) {
  const int num_ranks = session.world().size();
  test::Scarcity scarcity{.rank = num_ranks - 1};
  if (what == "request") {
    scarcity.failing_request = std::stoi(argument);
  } else {
    scarcity.has_file_space = false;
  }
  const config::ValidConfig config =
      test::scarce_config({{Axis::dp_shard, num_ranks}}, what == "request" ? "" : argument);
  const bool writes_activations = what != "moments";
  test::set_engine_up(config.with([=](config::Config& c) { c.train.activation_offload &= writes_activations; }),
                      scarcity, session);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> words(argv + 1, argv + argc);
  return comm::run_program(argc, argv, [&](comm::Session& session) { return run(session, words.at(0), words.at(1)); });
}
