// SPDX-License-Identifier: Apache-2.0
// What a save is planned to write: the state that there is, shared by the ranks that hold a copy of it.

#include "sft/rank/save_time.hpp"

#include <boost/test/unit_test.hpp>

#include "sft/rank/rank_plan.hpp"
#include "support/small_run.hpp"

namespace sft::rank {

namespace {

struct SaveFixture : test::SmallRun {
  [[nodiscard]] SaveTime plan(const mesh::Layout& layout) {
    test::set_mesh(config.parallel, layout);
    return plan_save(valid(), datasets(), {});
  }
  [[nodiscard]] std::uint64_t num_parameters() const {
    const config::ValidConfig checked = valid();
    const RankPlan rank(checked, datasets().limits(checked), mesh::Place(checked, 0), {});
    return static_cast<std::uint64_t>(rank.num_parameters().trainable);
  }
};

}  // namespace

BOOST_AUTO_TEST_SUITE(time_of_a_save)

BOOST_FIXTURE_TEST_CASE(a_checkpoint_has_weights_and_moments_on_any_mesh, SaveFixture) {
  const SaveTime alone = plan({});
  BOOST_TEST(alone.bytes == 12 * num_parameters());
  BOOST_TEST(alone.bytes_of_rank == alone.bytes);
  BOOST_TEST(alone.seconds() == static_cast<double>(alone.bytes) / assumed_write_bytes_per_s);

  const SaveTime sharded = plan({{Axis::dp_shard, 4}});
  BOOST_TEST(sharded.bytes == alone.bytes);
  BOOST_TEST(sharded.bytes_of_rank >= alone.bytes / 4);
  BOOST_TEST(sharded.bytes_of_rank < alone.bytes / 3);

  const SaveTime mixed = plan({{Axis::dp_replicate, 2}, {Axis::dp_shard, 2}, {Axis::sp, 2}, {Axis::tp, 2}});
  BOOST_TEST(mixed.bytes == alone.bytes);
  BOOST_TEST(mixed.bytes_of_rank < alone.bytes / 6);
}

BOOST_FIXTURE_TEST_CASE(what_the_optimizer_keeps_counts, SaveFixture) {
  config.optimizer.optim = config::OptimizerKind::adamw_8bit;
  const SaveTime codes = plan({});
  BOOST_TEST(codes.bytes > 6 * num_parameters());
  BOOST_TEST(codes.bytes < 7 * num_parameters());
}

BOOST_FIXTURE_TEST_CASE(of_adapters_alone_little_is_saved, SaveFixture) {
  config.lora.use_peft = true;
  const SaveTime adapters = plan({});
  BOOST_TEST(adapters.bytes == 12 * num_parameters());
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::rank
