// SPDX-License-Identifier: Apache-2.0
// Files of machines, and what their names say.
#include <boost/test/unit_test.hpp>
#include <string>
#include <vector>

#include "sft/core/error.hpp"
#include "sft/io/files.hpp"
#include "sft/simulator/hardware.hpp"

BOOST_AUTO_TEST_SUITE(hardware)

namespace {

using namespace sft;
using namespace sft::simulator;

std::vector<Hardware> shipped() {
  return read_machines(io::read_file(SFT_SOURCE_DIR "/share/machines.ini"), "machines.ini");
}

std::string error_of(const std::string& text) {
  try {
    static_cast<void>(read_machines(text, "m.ini"));
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_CASE(shipped_machines_can_be_read_and_written) {
  const std::vector<Hardware> machines = shipped();
  BOOST_TEST(machines.size() >= 4);
  for (const Hardware& machine : machines) {
    BOOST_TEST_CONTEXT(machine.name) {
      const std::vector<Hardware> again = read_machines(to_ini(machine), "again");
      BOOST_REQUIRE(again.size() == 1);
      BOOST_TEST(to_ini(again.front()) == to_ini(machine));
      BOOST_TEST(again.front().rates.overlaps == (machine.kind == device::Kind::cuda));
      // No rate is above what its maker promises.
      if (machine.kind == device::Kind::cuda) {
        BOOST_TEST(machine.rates.products.back().flops_per_s < machine.peak_flops_per_s);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(gpus_say_what_they_can_compute) {
  for (const auto& [name, compute_capability, multiprocessors, memory_bus_bits] :
       {std::tuple("a100", 80, 108, 5120), {"h100", 90, 132, 5120}, {"h200x8", 90, 132, 6144}, {"cpu", 0, 0, 0}}) {
    BOOST_TEST(find_machine(name, shipped()).compute_capability == compute_capability);
    BOOST_TEST(find_machine(name, shipped()).multiprocessors == multiprocessors);
    BOOST_TEST(find_machine(name, shipped()).memory_bus_bits == memory_bus_bits);
  }
}

BOOST_AUTO_TEST_CASE(what_was_measured_is_written_and_read_again) {
  Hardware machine = find_machine("h200", shipped());
  machine.kind = device::Kind::cpu;
  machine.cores_per_node = 4;
  machine.start_s = 1.5;
  machine.rates.product_grid.sides = {16, 64};
  for (auto& rates : machine.rates.product_grid.flops_per_s) {
    for (int i = 1; i <= 8; ++i) rates.push_back(1e9 * i);
  }
  machine.rates.attention.forward = machine.rates.attention.backward = {{10, 1e12}, {20, 2e12}};
  machine.rates.attention_cudnn.backward = {{30, 3e12}};
  machine.rates.attention_cudnn_unordered.backward = {{40, 4e12}};
  machine.rates.passes[0] = {{100, 1e9}, {200, 2e9}};
  machine.rates.passes[ops::num_passes - 1] = {{300, 3e9}};
  machine.network.measured = {{"all_gather", {1, 2}, {{1024, 1e-6}, {2048, 2e-6}}},
                              {"all_gather", {2, 4}, {{1024, 3e-6}, {2048, 4e-6}}},
                              {"exchange", {1, 2}, {{1024, 5e-6}, {2048, 6e-6}}}};
  machine.network.waits = {{"all_reduce", {1, 4}, {{1e-4, 0}, {2e-4, 1e-5}}},
                           {"all_reduce", {1, 8}, {{1e-4, 5e-5}}},
                           {"exchange_all", {1, 8}, {{1e-4, 6e-5}}}};
  const std::string text = to_ini(machine);
  const Hardware again = read_machines(text, "again").front();
  BOOST_TEST(to_ini(again) == text);
  BOOST_TEST(again.rates.product_grid.flops_per_s[2].back() == 8e9, boost::test_tools::tolerance(1e-9));
  BOOST_REQUIRE(again.rates.attention_cudnn.backward.size() == 1);
  BOOST_TEST(again.rates.attention_cudnn.backward[0].flops_per_s == 3e12, boost::test_tools::tolerance(1e-9));
  BOOST_REQUIRE(again.rates.attention_cudnn_unordered.backward.size() == 1);
  BOOST_TEST(again.rates.attention_cudnn_unordered.backward[0].size == 40, boost::test_tools::tolerance(1e-9));
  BOOST_REQUIRE(again.network.measured.size() == 3);
  BOOST_TEST((again.network.measured[1].span == simulator::Span{2, 4}));
  BOOST_TEST(again.rates.passes[0].size() == 2);
  BOOST_REQUIRE(again.network.waits.size() == 3);
  BOOST_TEST((again.network.waits[0].span == simulator::Span{1, 4}));
  BOOST_TEST(again.network.waits[0].points[1].computed_s == 2e-4, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(again.network.waits[1].points[0].wait_s == 5e-5, boost::test_tools::tolerance(1e-9));
  for (const char* wrong : {"all_gather_us = 4x1@1024:5", "pass_gbps = walk@1:2", "product_sides = 64 16",
                            "exchange_us = 4x1@1024:5 4x1@1024:6", "all_reduce_wait_us = 4x1@0:1",
                            "all_reduce_wait_us = 4x1@200:1 4x1@100:2", "all_reduce_wait_us = 4@100:1",
                            "exchange_us = 4x1@1024:0 4x1@2048:6", "product_forward_gflops = 1 2 3"}) {
    BOOST_TEST_CONTEXT(wrong) { BOOST_TEST(!error_of(to_ini(shipped().front()) + wrong + "\n").empty()); }
  }
}

BOOST_AUTO_TEST_CASE(ranks_of_a_node_share_its_cores) {
  Hardware machine = find_machine("h200", shipped());
  machine.kind = device::Kind::cpu;
  machine.cores_per_node = 8;
  const double alone = machine.rates.memory_bytes_per_s;
  BOOST_TEST(with_ranks_per_node(machine, 16).rates.memory_bytes_per_s == alone / 2);
  BOOST_TEST(with_ranks_per_node(machine, 4).rates.memory_bytes_per_s == alone * 2);
  // With half of a core ranks take twice as long for what they wait for.
  machine.network.waits = {{"all_reduce", {1, 4}, {{1e-3, 1e-4}}}};
  const std::vector<simulator::MeasuredWaits> scarcer = with_ranks_per_node(machine, 16).network.waits;
  BOOST_REQUIRE(scarcer.size() == 1);
  BOOST_TEST(scarcer[0].points[0].computed_s == 2e-3, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(scarcer[0].points[0].wait_s == 2e-4, boost::test_tools::tolerance(1e-9));
  BOOST_TEST(with_ranks_per_node(machine, 4).network.waits.size() == 1);
  // What ranks that take turns wait for, says nothing of ranks with a core each.
  machine.ranks_per_node = 16;
  BOOST_TEST(with_ranks_per_node(machine, 8).network.waits.empty());
  machine.ranks_per_node = 8;
  machine.kind = device::Kind::cuda;  // a GPU is not shared
  BOOST_TEST(with_ranks_per_node(machine, 16).rates.memory_bytes_per_s == alone);
}

BOOST_AUTO_TEST_CASE(names_say_how_many) {
  const std::vector<Hardware> known = shipped();
  const Hardware h200 = find_machine("h200x8x4", known);
  BOOST_TEST(h200.ranks_per_node == 8);
  BOOST_TEST(h200.num_nodes == 4);
  BOOST_TEST(h200.num_ranks() == 32);
  BOOST_TEST(find_machine("h200x2", known).num_ranks() == 2);
  BOOST_TEST(find_machine("a100", known).num_ranks() == 8);
  for (const char* unknown : {"b300x8", "h200x0", "h200x8x0", "h200x", "x8", "", "h200x99999x99999"}) {
    BOOST_TEST_CONTEXT(unknown) {
      BOOST_CHECK_EXCEPTION(static_cast<void>(find_machine(unknown, known)), Error,
                            [](const Error& error) { return contains(error.what(), "h200"); });
    }
  }
}

BOOST_AUTO_TEST_CASE(a_file_that_says_too_little_or_nonsense_is_refused) {
  const std::string good = to_ini(shipped().front());
  BOOST_TEST(error_of(good).empty());
  BOOST_TEST(contains(error_of(good + good), "is there twice"));
  BOOST_TEST(contains(error_of(good + "kind = cpu\n"), "`kind` is given twice"));
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string text = good;
    const std::size_t at = text.find(from);
    BOOST_REQUIRE(at != std::string::npos);
    return text.replace(at, text.find('\n', at) - at, to);
  };
  BOOST_TEST(contains(error_of(with("memory_gbps", "")), "has no `memory_gbps`"));
  BOOST_TEST(contains(error_of(with("memory_gbps", "memory_gbps = 0")), "of 0"));
  BOOST_TEST(contains(error_of(with("memory_gbps", "memory_gbps = fast")), "m.ini:"));
  BOOST_TEST(contains(error_of(with("kind", "kind = tpu")), "cpu or cuda"));
  BOOST_TEST(contains(error_of(with("product_tflops", "product_tflops = 8:1 8:2")), "SIZE:TFLOPS"));
  BOOST_TEST(contains(error_of(with("product_tflops", "product_tflops = 8")), "SIZE:TFLOPS"));
  BOOST_TEST(contains(error_of(good + "colour = red\n"), "`colour`"));
  BOOST_TEST(contains(error_of("peak_tflops = 1\n"), "in no [machine]"));
}

BOOST_AUTO_TEST_CASE(groups_span_nodes) {
  const auto span = [](std::vector<int> numbers) {
    std::vector<WorldRank> ranks;
    for (const int number : numbers) ranks.push_back(WorldRank::from(number));
    return span_of(ranks, 4);
  };
  BOOST_TEST(span({0, 1, 2, 3}).num_nodes == 1);
  BOOST_TEST(span({0, 1, 2, 3}).ranks_per_node == 4);
  BOOST_TEST(span({0, 4, 8, 12}).num_nodes == 4);
  BOOST_TEST(span({0, 4, 8, 12}).ranks_per_node == 1);
  BOOST_TEST(span({0, 2, 4, 6}).num_nodes == 2);
  BOOST_TEST(span({0, 2, 4, 6}).ranks_per_node == 2);
}

BOOST_AUTO_TEST_SUITE_END()
