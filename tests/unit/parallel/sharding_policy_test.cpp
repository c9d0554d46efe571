// SPDX-License-Identifier: Apache-2.0
// What is sharded follows from the ranks that could share it: dp_shard x sp.

#include "sft/parallel/sharding_policy.hpp"

#include <boost/test/unit_test.hpp>

namespace sft::parallel {

namespace {

ShardingPolicy policy_of(const mesh::Layout& layout, const config::Parallel& parallel = {}) {
  return sharding_policy(parallel, mesh::Place(layout, 0, mesh::sharing_of(parallel)));
}

ShardingPolicy policy_of_stage(const mesh::Layout& layout, int zero_stage) {
  config::Parallel parallel;
  parallel.zero_stage = zero_stage;
  return policy_of(layout, parallel);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(policy)

BOOST_AUTO_TEST_CASE(one_rank_in_fsdp_shards_nothing) {
  for (const mesh::Layout& layout : {mesh::Layout{}, mesh::Layout{{Axis::dp_replicate, 4}, {Axis::tp, 2}}}) {
    const ShardingPolicy policy = policy_of(layout);
    BOOST_TEST(!policy.parameters);
    BOOST_TEST(!policy.gradients);
    BOOST_TEST(!policy.optimizer_state);
  }
}

BOOST_AUTO_TEST_CASE(several_ranks_shard_all_whichever_axis_they_are_on) {
  for (const mesh::Layout& layout :
       {mesh::Layout{{Axis::dp_shard, 2}}, mesh::Layout{{Axis::sp, 2}},
        mesh::Layout{{Axis::dp_replicate, 2}, {Axis::dp_shard, 3}, {Axis::sp, 2}, {Axis::tp, 4}}}) {
    const ShardingPolicy policy = policy_of(layout);
    BOOST_TEST(policy.parameters);
    BOOST_TEST(policy.gradients);
    BOOST_TEST(policy.optimizer_state);
  }
}

BOOST_AUTO_TEST_CASE(every_stage_shards_one_thing_more) {
  const mesh::Layout layout{{Axis::dp_replicate, 2}, {Axis::dp_shard, 2}, {Axis::sp, 3}};
  for (int stage = 0; stage <= 3; ++stage) {
    const ShardingPolicy policy = policy_of_stage(layout, stage);
    BOOST_TEST(policy.optimizer_state == (stage >= 1));
    BOOST_TEST(policy.gradients == (stage >= 2));
    BOOST_TEST(policy.parameters == (stage >= 3));
    const ShardingPolicy lone = policy_of_stage({{Axis::dp_replicate, 4}}, stage);
    BOOST_TEST((!lone.parameters && !lone.gradients && !lone.optimizer_state));
  }
}

BOOST_AUTO_TEST_CASE(parameters_on_the_node_are_gathered_even_on_one_rank) {
  for (const int stage : {0, 1, 2, 3}) {
    config::Parallel parallel;
    parallel.zero_stage = stage;
    for (const int dp_shard : {1, 2}) {
      const mesh::Place place({{Axis::dp_shard, dp_shard}}, 0, mesh::sharing_of(parallel));
      const ShardingPolicy without = sharding_policy(parallel, place);
      const ShardingPolicy policy = sharding_policy(parallel, place, /*offloads_parameters=*/true);
      BOOST_TEST(!without.parameters_on_host);
      BOOST_TEST(policy.parameters_on_host == (stage == 3));
      BOOST_TEST(policy.parameters == (stage == 3));
      BOOST_TEST(policy.gradients == without.gradients);
      BOOST_TEST(policy.optimizer_state == without.optimizer_state);
    }
  }
}

BOOST_AUTO_TEST_CASE(frozen_parameters_are_whole_where_parameters_are) {
  const mesh::Layout layout{{Axis::dp_shard, 4}};
  for (int stage = 0; stage <= 3; ++stage) {
    config::Parallel parallel;
    parallel.zero_stage = stage;
    const mesh::Place place(layout, 3, mesh::sharing_of(parallel));
    BOOST_TEST(place_of_frozen(sharding_policy(parallel, place), place).fsdp_size() == (stage == 3 ? 4 : 1));
  }
}

BOOST_AUTO_TEST_CASE(resharding_is_what_the_configuration_says) {
  const mesh::Layout layout{{Axis::dp_shard, 2}, {Axis::sp, 2}};
  config::Parallel parallel;
  BOOST_TEST(policy_of(layout, parallel).reshard_size == 0);
  parallel.reshard_size = 2;
  BOOST_TEST(policy_of(layout, parallel).reshard_size == 2);
  parallel.reshard_size = 4;  // all of them
  BOOST_TEST(policy_of(layout, parallel).reshard_size == 0);
  parallel.reshard_size = 0;
  parallel.reshard_after_forward = false;
  BOOST_TEST(policy_of(layout, parallel).reshard_size == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::parallel
