// SPDX-License-Identifier: Apache-2.0
// What is sharded follows from the ranks that could share it: dp_shard x sp.

#include "sft/parallel/sharding_policy.hpp"

#include <boost/test/unit_test.hpp>

namespace sft::parallel {

namespace {

ShardingPolicy policy_of(const mesh::Layout& layout, const config::Parallel& parallel = {}) {
  return sharding_policy(parallel, mesh::Place(layout, 0, 4, 4));
}

}  // namespace

BOOST_AUTO_TEST_SUITE(policy)

BOOST_AUTO_TEST_CASE(one_rank_in_fsdp_shards_nothing) {
  for (const mesh::Layout& layout : {mesh::Layout{}, mesh::Layout{.dp_replicate = 4, .tp = 2}}) {
    const ShardingPolicy policy = policy_of(layout);
    BOOST_TEST(!policy.parameters);
    BOOST_TEST(!policy.gradients);
    BOOST_TEST(!policy.optimizer_state);
  }
}

BOOST_AUTO_TEST_CASE(several_ranks_shard_all_whichever_axis_they_are_on) {
  for (const mesh::Layout& layout : {mesh::Layout{.dp_shard = 2}, mesh::Layout{.sp = 2},
                                     mesh::Layout{.dp_replicate = 2, .dp_shard = 3, .sp = 2, .tp = 4}}) {
    const ShardingPolicy policy = policy_of(layout);
    BOOST_TEST(policy.parameters);
    BOOST_TEST(policy.gradients);
    BOOST_TEST(policy.optimizer_state);
  }
}

BOOST_AUTO_TEST_CASE(resharding_is_what_the_configuration_says) {
  for (const bool reshard : {true, false}) {
    config::Parallel parallel;
    parallel.reshard_after_forward = reshard;
    BOOST_TEST(policy_of({.dp_shard = 2}, parallel).reshard_after_forward == reshard);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::parallel
