// SPDX-License-Identifier: Apache-2.0
#include "sft/machine/node.hpp"

#include <boost/test/unit_test.hpp>
#include <fstream>
#include <string>

#include "support/temporary_folder.hpp"

namespace sft::machine {

namespace {

constexpr std::size_t gibibyte = std::size_t{1} << 30;

/// A tree in which /proc and /sys say what a test wants.
struct FakeRoot {
  test::TemporaryFolder folder;

  FakeRoot() { write("proc/meminfo", "MemFree:  1024 kB\nMemTotal:       16777216 kB\nBuffers:  7 kB\n"); }
  void write(const std::string& file, const std::string& text) const {
    const std::filesystem::path path = folder.file(file);
    std::filesystem::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  [[nodiscard]] std::size_t memory_bytes() const { return node_memory_bytes(folder.path()).value(); }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(memory)

BOOST_FIXTURE_TEST_CASE(is_all_ram_where_nothing_limits_it, FakeRoot) {
  BOOST_TEST(memory_bytes() == 16 * gibibyte);
  write("proc/self/cgroup", "0::/user.slice\n");
  write("sys/fs/cgroup/user.slice/memory.max", "max\n");
  BOOST_TEST(memory_bytes() == 16 * gibibyte);
}

BOOST_FIXTURE_TEST_CASE(is_the_limit_of_the_own_group_in_version_2, FakeRoot) {
  write("proc/self/cgroup", "0::/job/step\n");
  write("sys/fs/cgroup/job/memory.max", "max\n");
  write("sys/fs/cgroup/job/step/memory.max", std::to_string(3 * gibibyte) + "\n");
  BOOST_TEST(memory_bytes() == 3 * gibibyte);
}

BOOST_FIXTURE_TEST_CASE(is_the_least_limit_on_the_way_up, FakeRoot) {
  write("proc/self/cgroup", "0::/job/step/task\n");
  write("sys/fs/cgroup/job/memory.max", std::to_string(2 * gibibyte));
  write("sys/fs/cgroup/job/step/task/memory.max", std::to_string(5 * gibibyte));
  BOOST_TEST(memory_bytes() == 2 * gibibyte);
}

BOOST_FIXTURE_TEST_CASE(is_the_limit_of_the_memory_controller_in_version_1, FakeRoot) {
  write("proc/self/cgroup", "11:cpu,cpuacct:/cpus\n5:hugetlb,memory:/slurm/job_7\n1:name=systemd:/x\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
  write("sys/fs/cgroup/memory/slurm/job_7/memory.limit_in_bytes", std::to_string(4 * gibibyte) + "\n");
  write("sys/fs/cgroup/memory/cpus/memory.limit_in_bytes", "1\n");
  BOOST_TEST(memory_bytes() == 4 * gibibyte);
}

BOOST_FIXTURE_TEST_CASE(is_the_limit_of_a_container_whose_tree_begins_at_its_own_group, FakeRoot) {
  write("proc/self/cgroup", "4:memory:/docker/0123abcd\n0::/../../docker/0123abcd\n");
  write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(6 * gibibyte) + "\n");
  BOOST_TEST(memory_bytes() == 6 * gibibyte);
  write("sys/fs/cgroup/memory.max", std::to_string(5 * gibibyte) + "\n");
  BOOST_TEST(memory_bytes() == 5 * gibibyte);
}

BOOST_FIXTURE_TEST_CASE(is_ram_where_a_limit_exceeds_it, FakeRoot) {
  write("proc/self/cgroup", "0::/\n");
  write("sys/fs/cgroup/memory.max", std::to_string(64 * gibibyte) + "\n");
  BOOST_TEST(memory_bytes() == 16 * gibibyte);
}

BOOST_FIXTURE_TEST_CASE(comes_in_huge_pages_where_the_system_always_gives_them, FakeRoot) {
  BOOST_TEST(unasked_huge_page_bytes(folder.path()) == 0U);  // a system without them
  write("sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "2097152\n");
  write("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n");
  BOOST_TEST(unasked_huge_page_bytes(folder.path()) == 0U);
  write("sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n");
  BOOST_TEST(unasked_huge_page_bytes(folder.path()) == 2097152U);
}

BOOST_AUTO_TEST_CASE(is_unknown_where_the_system_does_not_tell) {
  const test::TemporaryFolder empty;
  BOOST_TEST(!node_memory_bytes(empty.path()).has_value());
}

BOOST_AUTO_TEST_CASE(is_known_on_this_machine) { BOOST_TEST(node_memory_bytes().value() > gibibyte / 8); }

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(threads)

BOOST_AUTO_TEST_CASE(are_an_equal_share_of_the_cores) {
  const Cores node{.of_job = 48, .of_rank = 48, .wanted_threads = {}};
  BOOST_TEST(num_threads_of_rank(node, 1) == 48);
  BOOST_TEST(num_threads_of_rank(node, 5) == 9);
  BOOST_TEST(num_threads_of_rank(node, 48) == 1);
  BOOST_TEST(num_threads_of_rank(node, 64) == 1);
}

BOOST_AUTO_TEST_CASE(are_no_more_than_a_rank_is_bound_to) {
  const Cores bound{.of_job = 48, .of_rank = 4, .wanted_threads = {}};
  BOOST_TEST(num_threads_of_rank(bound, 2) == 4);
  BOOST_TEST(num_threads_of_rank(bound, 24) == 2);
}

BOOST_AUTO_TEST_CASE(are_what_the_user_asks_for) {
  const Cores asked{.of_job = 48, .of_rank = 4, .wanted_threads = 7};
  BOOST_TEST(num_threads_of_rank(asked, 1) == 7);
  BOOST_TEST(num_threads_of_rank(asked, 48) == 7);
}

BOOST_AUTO_TEST_CASE(cores_of_this_machine_are_there) {
  const Cores cores = cores_of_this_process();
  BOOST_TEST(cores.of_rank >= 1);
  BOOST_TEST(cores.of_job >= cores.of_rank);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::machine
