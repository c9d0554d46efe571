// SPDX-License-Identifier: Apache-2.0
// Ranks that find each other by several roots make one communicator, whatever the number of ranks for each.
#include "comm/nccl/unique_ids.hpp"

#include <cstring>
#include <set>
#include <string>

#include "support/mpi_session.hpp"

namespace sft::test {

namespace {

std::string text_of(const ncclUniqueId& id) { return {id.internal, sizeof id.internal}; }

}  // namespace

BOOST_AUTO_TEST_CASE(roots_are_as_many_as_needed_and_each_is_the_first_of_its_ranks) {
  BOOST_TEST(comm::num_roots(1) == 1);
  BOOST_TEST(comm::num_roots(128) == 1);
  BOOST_TEST(comm::num_roots(129) == 2);
  BOOST_TEST(comm::num_roots(16384) == 128);
  for (const int size : {1, 5, 129, 1000, 16384}) {
    const int count = comm::num_roots(size);
    for (int root = 0; root < count; ++root) {
      const int first = comm::rank_of_root(root, count, size), end = comm::rank_of_root(root + 1, count, size);
      BOOST_TEST((first < end && end - first <= comm::ranks_per_root), size << " ranks, root " << root);
    }
    BOOST_TEST(comm::rank_of_root(0, count, size) == 0);
    BOOST_TEST(comm::rank_of_root(count, count, size) == size);
  }
}

BOOST_AUTO_TEST_CASE(all_ranks_get_the_ids_of_all_roots) {
  const comm::Group& world = session().world();
  for (const int per_root : {1, 2, 3, 128}) {
    const std::vector<ncclUniqueId> ids = comm::share_unique_ids(world, per_root);
    BOOST_TEST(std::ssize(ids) == comm::num_roots(world.size(), per_root));
    std::string all;
    std::set<std::string> different;
    for (const ncclUniqueId& id : ids) {
      all += text_of(id);
      different.insert(text_of(id));
    }
    BOOST_TEST(different.size() == ids.size());
    for (const std::string& other : world.all_gather(all)) BOOST_TEST((other == all));
  }
}

BOOST_AUTO_TEST_CASE(a_communicator_of_several_roots_has_all_ranks) {
  const comm::Group& world = session().world();
  for (const int per_root : {1, 2, 128}) {
    std::vector<ncclUniqueId> ids = comm::share_unique_ids(world, per_root);
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = 1;
    ncclComm_t communicator = nullptr;
    BOOST_REQUIRE(ncclCommInitRankScalable(&communicator, world.size(), world.rank(), static_cast<int>(ids.size()),
                                           ids.data(), &config) == ncclSuccess);
    int size = 0, rank = 0;
    BOOST_TEST(ncclCommCount(communicator, &size) == ncclSuccess);
    BOOST_TEST(ncclCommUserRank(communicator, &rank) == ncclSuccess);
    BOOST_TEST(size == world.size());
    BOOST_TEST(rank == world.rank());
    BOOST_TEST(ncclCommFinalize(communicator) == ncclSuccess);
    BOOST_TEST(ncclCommDestroy(communicator) == ncclSuccess);
  }
}

}  // namespace sft::test
