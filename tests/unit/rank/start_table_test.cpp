// SPDX-License-Identifier: Apache-2.0
// What a mesh is warned of.
#include "sft/rank/start_table.hpp"

#include <boost/test/unit_test.hpp>
#include <string>

using namespace sft;

namespace {

config::Parallel mesh_of(int replicas, int shards, int sp_size, int zero_stage = 3) {
  config::Parallel parallel;
  parallel.dp_replicate_size = replicas;
  parallel.dp_shard_size = shards;
  parallel.sp_size = sp_size;
  parallel.zero_stage = zero_stage;
  return parallel;
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

BOOST_AUTO_TEST_SUITE(start_table)

BOOST_AUTO_TEST_CASE(rings_of_up_to_1024_ranks_are_no_matter) {
  BOOST_TEST(rank::warning_of_mesh(mesh_of(16, 1024, 1)) == "");
  BOOST_TEST(rank::warning_of_mesh(mesh_of(1, 128, 8)) == "");
  BOOST_TEST(rank::warning_of_mesh(mesh_of(1, 4096, 1, /*zero_stage=*/0)) == "");
}

BOOST_AUTO_TEST_CASE(longer_ones_bring_a_warning_with_copies_that_shorten_them) {
  const std::string text = rank::warning_of_mesh(mesh_of(2, 2048, 2));
  BOOST_TEST(has(text, "4096 ranks share each unit"), text);
  BOOST_TEST(has(text, "set dp_replicate_size = 8 and dp_shard_size = 512"), text);
  // 1500 / 2 is 750: the fewest copies that divide.
  BOOST_TEST(has(rank::warning_of_mesh(mesh_of(1, 1500, 1, 1)), "dp_replicate_size = 2 and dp_shard_size = 750"));
  BOOST_TEST(has(rank::warning_of_mesh(mesh_of(1, 3075, 1)), "dp_replicate_size = 5 and dp_shard_size = 615"));
}

BOOST_AUTO_TEST_SUITE_END()
