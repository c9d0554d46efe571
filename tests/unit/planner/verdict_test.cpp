// SPDX-License-Identifier: Apache-2.0
#include "sft/planner/verdict.hpp"

#include <boost/test/unit_test.hpp>

#include "sft/rows/planned_rows.hpp"
#include "support/config_error.hpp"

using namespace sft;
using device::Kind;
using planner::judge;
using planner::Room;
using rank::MemoryTable;

namespace {

constexpr std::size_t gib = std::size_t{1} << 30;

/// Of ranks that need so much of a GPU and of their node.
MemoryTable memory_of(std::size_t gpu_gib, std::size_t node_gib) {
  MemoryTable memory;
  memory.on_gpu.most_bytes = gpu_gib * gib;
  memory.on_node.most_bytes = node_gib * gib;
  memory.total.most_bytes = (gpu_gib + node_gib) * gib;
  memory.labels[static_cast<std::size_t>(device::Label::activations)].most_bytes = gpu_gib * gib;
  return memory;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(verdict)

BOOST_AUTO_TEST_CASE(of_gpus_and_nodes) {
  const Room room{.gpu_bytes = 80 * gib,
                  .node_bytes = 100 * gib,
                  .ranks_per_node = 8,
                  .takes_more_nodes = false,
                  .whose = "h100x8"};
  struct Case {
    std::size_t gpu_gib, node_gib;
    bool fits, is_of_gpu;
  };
  const std::vector<Case> cases{
      {80, 1, true, true}, {81, 1, false, true}, {40, 13, false, false}, {81, 13, false, true}};
  for (const Case& each : cases) {
    const planner::Verdict verdict = judge(memory_of(each.gpu_gib, each.node_gib), Kind::cuda, room);
    BOOST_TEST(verdict.is_known);
    BOOST_TEST(verdict.fits() == each.fits);
    BOOST_TEST(verdict.is_of_gpu == each.is_of_gpu);
  }
  const MemoryTable memory = memory_of(81, 1);
  const std::string said = describe(judge(memory, Kind::cuda, room), memory, room);
  test::check_says(said, "NO: a rank takes 81.00 GiB of 80.00 GiB (h100x8), 1.00 GiB too much");
  test::check_says(said, "81.00 GiB of activations");
}

BOOST_AUTO_TEST_CASE(of_ranks_on_processors) {
  const Room room{
      .gpu_bytes = 0, .node_bytes = 16 * gib, .ranks_per_node = 4, .takes_more_nodes = false, .whose = "this node"};
  const MemoryTable fits = memory_of(0, 4), too_much = memory_of(0, 5);
  test::check_says(describe(judge(fits, Kind::cpu, room), fits, room),
                   "yes: 4 ranks of a node take 16.00 GiB of 16.00 GiB (this node), 0 B to spare");
  BOOST_TEST(!judge(too_much, Kind::cpu, room).fits());
  BOOST_TEST(describe(judge(fits, Kind::cpu, {}), fits, {}).empty());  // nothing is known
}

BOOST_AUTO_TEST_CASE(of_as_many_nodes_as_it_takes) {
  const Room room{.gpu_bytes = 0, .node_bytes = 16 * gib, .ranks_per_node = 10, .takes_more_nodes = true, .whose = "x"};
  const MemoryTable memory = memory_of(0, 5);
  const planner::Verdict verdict = judge(memory, Kind::cpu, room);
  BOOST_TEST(verdict.fits());
  BOOST_TEST(verdict.num_nodes == 4);
  test::check_says(describe(verdict, memory, room),
                   "yes: on 4 nodes, 3 ranks of a node take 15.00 GiB of 16.00 GiB (x)");
  BOOST_TEST(!judge(memory_of(0, 17), Kind::cpu, room).fits());  // a single rank
}

BOOST_AUTO_TEST_CASE(goes_without_copies_of_what_is_saved) {
  Room room{.gpu_bytes = 80 * gib, .node_bytes = 16 * gib, .ranks_per_node = 4, .whose = "x"};
  MemoryTable memory = memory_of(40, 5);
  memory.labels[static_cast<std::size_t>(device::Label::snapshot)].most_bytes = gib;
  BOOST_TEST(!judge(memory, Kind::cuda, room).fits());  // async = true
  room.may_skip_copies = true;
  const planner::Verdict verdict = judge(memory, Kind::cuda, room);
  BOOST_TEST(verdict.fits());
  test::check_says(describe(verdict, memory, room), "a node lacks 4.00 GiB for copies of what is saved");
  memory.on_node.most_bytes = 6 * gib;
  BOOST_TEST(!judge(memory, Kind::cuda, room).fits());
}

BOOST_AUTO_TEST_CASE(of_a_machine) {
  simulator::Hardware hardware;
  hardware.name = "h100x8";
  hardware.device_bytes = 100 * gib;
  hardware.node_bytes = gib;
  hardware.ranks_per_node = 8;
  const Room room = planner::room_of(hardware);
  BOOST_TEST(room.gpu_bytes == 98 * gib);
  BOOST_TEST(room.ranks_per_node == 8);
  planner::StepTime time;
  time.step_s = 3.6;
  BOOST_TEST(describe_duration(2000, time, hardware) == "2000 steps of 3.6 s on h100x8: 2 hours");
  hardware.start_s = 1800;
  BOOST_TEST(describe_duration(2000, time, hardware) == "2000 steps of 3.6 s on h100x8: 2.5 hours");
}

BOOST_AUTO_TEST_CASE(rows_that_are_not_there) {
  const rows::PackedDataset rows = rows::planned_rows(100, 32, 272);
  BOOST_TEST(rows::is_planned(rows));
  BOOST_TEST(rows.num_rows() == 100);
  BOOST_TEST(rows.max_length() == 32);
  BOOST_TEST(rows.vocab_size() == 272);
  BOOST_TEST(rows.num_tokens() == 3200);
  BOOST_TEST(rows.num_target_tokens() == 3100);
  BOOST_TEST(rows.row_lengths() == std::vector<std::int32_t>(100, 32), boost::test_tools::per_element());
  BOOST_TEST(rows.row_counts().at(99).length_squares == 1024.0);
}

BOOST_AUTO_TEST_SUITE_END()
