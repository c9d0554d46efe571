// SPDX-License-Identifier: Apache-2.0
#include "sft/machine/node.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "support/temporary_folder.hpp"

namespace sft::machine {

namespace {

/// A tree in which /sys says what a test wants.
struct FakeRoot {
  test::TemporaryFolder folder;

  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = folder.file("sys/class/" + file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text << '\n';
  }
  void write_port(const std::string& port, const std::string& state, const std::string& rate) const {
    write("infiniband/" + port + "/state", state);
    write("infiniband/" + port + "/rate", rate);
  }
  void write_interface(const std::string& name, const std::string& state, const std::string& speed) const {
    write("net/" + name + "/operstate", state);
    write("net/" + name + "/speed", speed);
  }
};

using Adapters = std::vector<std::string>;

}  // namespace

BOOST_AUTO_TEST_SUITE(network)

BOOST_FIXTURE_TEST_CASE(adapters_with_a_link_have_their_rates, FakeRoot) {
  write_port("mlx5_1/ports/1", "4: ACTIVE", "400 Gb/sec (4X NDR)");
  write_port("mlx5_0/ports/1", "4: ACTIVE", "100 Gb/sec (2X HDR)");
  write_port("mlx5_2/ports/1", "1: DOWN", "10 Gb/sec (4X SDR)");
  write_port("mlx4_0/ports/1", "5: ACTIVE_DEFER", "40 Gb/sec (4X QDR)");
  write_port("mlx4_0/ports/2", "4: ACTIVE", "56 Gb/sec (4X FDR)");
  write_interface("eth0", "up", "25000");
  write_interface("eth1", "down", "25000");
  write_interface("eth2", "up", "2500");
  write_interface("virtual", "up", "-1");
  write_interface("lo", "unknown", "");
  const Adapters expected{"mlx4_0:2 56 Gb/s (4X FDR)", "mlx5_0 100 Gb/s (2X HDR)", "mlx5_1 400 Gb/s (4X NDR)",
                          "eth0 25 Gb/s", "eth2 2500 Mb/s"};
  BOOST_TEST(network_adapters(folder.path()) == expected, boost::test_tools::per_element());
}

BOOST_FIXTURE_TEST_CASE(a_system_that_tells_nothing_has_none, FakeRoot) {
  BOOST_TEST(network_adapters(folder.path()).empty());
  write("infiniband/mlx5_0/nothing", "");
  BOOST_TEST(network_adapters(folder.path()).empty());
}

}  // namespace sft::machine

BOOST_AUTO_TEST_SUITE_END()
