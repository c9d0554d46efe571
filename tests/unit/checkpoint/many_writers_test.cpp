// SPDX-License-Identifier: Apache-2.0
// A checkpoint of 4096 ranks, with planned places and sparse shard files: how large its map is, and what one rank of
// the same mesh and of others reads to resume.

#include <boost/test/unit_test.hpp>
#include <chrono>
#include <filesystem>
#include <string>

#include "checkpoint/header.hpp"
#include "checkpoint/index_tensors.hpp"
#include "support/layout.hpp"
#include "support/planned_checkpoint.hpp"
#include "support/temporary_folder.hpp"

namespace fs = std::filesystem;
using namespace sft;
using namespace sft::checkpoint;

BOOST_AUTO_TEST_SUITE(many_writers)

BOOST_AUTO_TEST_CASE(four_thousand_ranks_write_a_small_map_and_read_their_own_bytes) {
  const test::TemporaryFolder folder;
  const test::Layout writers{1, 512, 1, 8};
  const FileMap map = test::make_checkpoint(folder.path(), writers, 8);

  // The map: no virtual dataset in the way, and far less than the 97 bytes of each of 4.7 million mappings.
  auto start = std::chrono::steady_clock::now();
  BOOST_TEST(!has_few_pieces(map));
  const double decide_s = test::seconds_since(start);
  start = std::chrono::steady_clock::now();
  (void)write_map(folder.path(), config::Config(), "byte", {}, map);
  const double write_s = test::seconds_since(start);
  const auto map_bytes = fs::file_size(index_path(folder.path()));
  BOOST_TEST(!fs::exists(tensor_index_path(folder.path())));
  BOOST_TEST(map_bytes < 2'000'000U);
  BOOST_TEST(decide_s + write_s < 10.0);  // some 0.1 s: what a loaded machine may make of it

  const std::string text = to_text(map);
  const test::Cost same = test::resume(folder.path(), text, map.files, writers, 1234, true);
  BOOST_TEST(same.is_as_expected);
  BOOST_TEST(same.num_opens <= 2);  // its own file, and that of the norms which the first rank of tp wrote
  BOOST_TEST(same.num_bytes <= same.own_bytes + same.own_bytes / 10);
  const auto report = [](const char* mesh, const test::Cost& cost) {
    BOOST_TEST_MESSAGE(mesh << ": " << cost.num_opens << " opens, " << cost.num_bytes << " bytes read for "
                            << cost.own_bytes << " of state, " << cost.time_s << " s");
  };
  BOOST_TEST_MESSAGE("4096 writers: map of " << map_bytes << " bytes in " << write_s << " s, few pieces? in "
                                             << decide_s << " s");
  report("the same mesh", same);
  // Half as many ranks, and twice as many.
  for (const test::Layout& readers : {test::Layout{1, 256, 1, 8}, test::Layout{1, 1024, 1, 8}}) {
    const test::Cost other = test::resume(folder.path(), text, map.files, readers, readers.size() / 3, false);
    report(readers.describe().c_str(), other);
    BOOST_TEST(other.is_as_expected);
    BOOST_TEST(other.num_bytes <= other.own_bytes + other.own_bytes / 10);
    BOOST_TEST(other.num_opens <= (readers[Axis::dp_shard] < 512 ? 4 : 3));
  }
}

// Where the ranks of a node share one file, replicated parameters cost no further one. Shards are padded to multiples
// of 64 elements, so what a rank of half as many holds may begin in a third shard.
BOOST_AUTO_TEST_CASE(with_a_file_for_each_node_a_rank_opens_those_that_its_pieces_lie_in) {
  const test::TemporaryFolder folder;
  const FileMap map = test::make_checkpoint(folder.path(), test::Layout{1, 512, 1, 8}, 1);
  const std::string text = to_text(map);
  for (const int shards : {256, 512, 1024}) {
    const test::Layout readers{1, shards, 1, 8};
    for (const int rank : {0, readers.size() / 3, readers.size() - 1}) {
      const test::Cost cost = test::resume(folder.path(), text, map.files, readers, rank, shards == 512);
      BOOST_TEST_MESSAGE(readers.describe() << ", rank " << rank << ": " << cost.num_opens << " opens");
      BOOST_TEST(cost.is_as_expected);
      BOOST_TEST(cost.num_opens <= (shards < 512 ? 3 : shards == 512 ? 1 : 2));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
