// SPDX-License-Identifier: Apache-2.0
// What is sharded follows from the ranks that could share it: dp_shard x sp.

#include "sft/parallel/sharding_policy.hpp"

#include <boost/test/unit_test.hpp>

#include "support/layout.hpp"
#include "unit/parallel/sample_units.hpp"

namespace sft::parallel {

namespace {

using config::Reshard;

ShardingPolicy policy_of(const mesh::Layout& layout, config::Parallel parallel = {}, bool offloads_parameters = false) {
  sft::test::set_mesh(parallel, layout);
  return sharding_policy(parallel, offloads_parameters);
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
      const mesh::Layout layout{{Axis::dp_shard, dp_shard}};
      const ShardingPolicy without = policy_of(layout, parallel);
      const ShardingPolicy policy = policy_of(layout, parallel, /*offloads_parameters=*/true);
      BOOST_TEST(!without.parameters_on_host);
      BOOST_TEST(policy.parameters_on_host == (stage == 3));
      BOOST_TEST(policy.parameters == (stage == 3));
      BOOST_TEST(policy.gradients == without.gradients);
      BOOST_TEST(policy.optimizer_state == without.optimizer_state);
    }
  }
}

BOOST_AUTO_TEST_CASE(parts_without_gradients_are_whole_where_parameters_are) {
  for (int stage = 0; stage <= 3; ++stage) {
    const ShardingPolicy policy = policy_of_stage({{Axis::dp_shard, 4}}, stage);
    BOOST_TEST((policy.shard_axes(/*has_gradient=*/false) == (stage == 3 ? fsdp_axes : AxisSet{})));
    BOOST_TEST((policy.shard_axes(/*has_gradient=*/true) == (stage >= 1 ? fsdp_axes : AxisSet{})));
    const auto parts = make_parts(test::sample_parts(), test::fsdp_place(4, 1), policy, DType::bf16);
    BOOST_TEST(parts.size() == 2);
    BOOST_TEST(parts[test::trained].has_gradient);
    BOOST_TEST(parts[test::trained].has_copy());
    BOOST_TEST(parts[test::trained].is_sharded() == (stage >= 1));
    BOOST_TEST(!parts[test::untrained].has_gradient);
    BOOST_TEST(!parts[test::untrained].has_copy());
    BOOST_TEST(parts[test::untrained].is_sharded() == (stage == 3));
  }
}

BOOST_AUTO_TEST_CASE(codes_are_sent_where_several_ranks_have_shards_on_their_devices) {
  for (int stage = 0; stage <= 3; ++stage) {
    for (const int num_ranks : {1, 4}) {
      for (const bool on_host : {false, true}) {
        config::Parallel parallel;
        parallel.zero_stage = stage;
        const ShardingPolicy policy = policy_of({{Axis::dp_shard, num_ranks}}, parallel, on_host);
        IndexedVector<PartIndex, PartUnits> model = test::sample_parts();
        for (const PartIndex part : model.indices()) model[part].in_fp8 = ops::Fp8Tiles::blocks;
        const auto parts = make_parts(model, test::fsdp_place(num_ranks, 0), policy, DType::bf16);
        const bool is_there = num_ranks > 1 && !policy.parameters_on_host;
        BOOST_TEST(parts[test::trained].in_fp8.has_value() == (is_there && stage >= 1));
        BOOST_TEST(parts[test::untrained].in_fp8.has_value() == (is_there && stage == 3));
        for (const Part& part : parts) {
          BOOST_TEST((part.sent() == (part.in_fp8 ? DType::uint8 : DType::bf16)));
          BOOST_TEST((part.gathered == DType::bf16));
          BOOST_TEST(part.in_memory(7) == 7);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(groups_are_made_for_what_is_sharded) {
  config::Parallel parallel;
  parallel.reshard_after_forward = Reshard::to_groups;
  parallel.reshard_size = 2;
  const mesh::Sharing sharing = sharing_of(policy_of({{Axis::dp_shard, 4}, {Axis::tp, 2}}, parallel), 2);
  BOOST_TEST((sharing.shard_axes == fsdp_axes));
  BOOST_TEST(sharing.reshard_size == 2);
  BOOST_TEST(sharing.kv_replicas == 2);
  const mesh::Sharing whole = sharing_of(policy_of_stage({{Axis::dp_shard, 4}}, 0), 1);
  BOOST_TEST((whole.shard_axes == AxisSet{}));
  BOOST_TEST(whole.reshard_size == 1);
}

BOOST_AUTO_TEST_CASE(resharding_is_what_the_configuration_says) {
  const mesh::Layout layout{{Axis::dp_shard, 2}, {Axis::sp, 2}};
  config::Parallel parallel;
  BOOST_TEST((policy_of(layout, parallel).reshard == Reshard::always));
  parallel.reshard_after_forward = Reshard::never;
  BOOST_TEST((policy_of(layout, parallel).reshard == Reshard::never));
  parallel.reshard_after_forward = Reshard::to_groups;
  parallel.reshard_size = 2;
  BOOST_TEST((policy_of(layout, parallel).reshard == Reshard::to_groups));
  BOOST_TEST(policy_of(layout, parallel).reshard_size == 2);
  parallel.reshard_size = 4;  // all of them
  BOOST_TEST((policy_of(layout, parallel).reshard == Reshard::always));
  BOOST_TEST(policy_of(layout, parallel).reshard_size == 1);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::parallel
