// SPDX-License-Identifier: Apache-2.0
// Gathers of units do not queue behind reductions of gradients: who is faster overtakes.
#include <boost/test/unit_test.hpp>
#include <memory>
#include <variant>

#include "sft/device/factory.hpp"
#include "sft/model/layer_plan.hpp"
#include "sft/rank/rehearsal_tools.hpp"
#include "sft/rank/workers.hpp"
#include "sft/sequence/attention_schedule.hpp"
#include "support/small_run.hpp"

namespace {

using namespace sft;

struct Counts {
  int reductions_under_way = 0;
  int gathers_after_reductions = 0;  ///< queued while one was under way
  int overtaking = 0;                ///< of these, finished while it still was
};

/// Ends after some polls, once it is at the head of its stream.
class SlowReduction final : public device::Pending {
 public:
  explicit SlowReduction(Counts& counts) : counts_(counts) { ++counts_.reductions_under_way; }
  bool test() override {
    if (--polls_left_ > 0) return false;
    --counts_.reductions_under_way;
    return true;
  }

 private:
  Counts& counts_;
  int polls_left_ = 100;
};

class QuickGather final : public device::Pending {
 public:
  explicit QuickGather(Counts& counts) : counts_(counts), is_after_(counts.reductions_under_way > 0) {
    counts_.gathers_after_reductions += is_after_ ? 1 : 0;
  }
  bool test() override {
    counts_.overtaking += is_after_ && counts_.reductions_under_way > 0 ? 1 : 0;
    return true;
  }

 private:
  Counts& counts_;
  bool is_after_;
};

class TimedCollectives final : public comm::Collectives {
 public:
  void run(const comm::Group& group, const comm::Call& call, device::Stream& stream) override {
    if (group.size() == 1) return;
    if (std::holds_alternative<comm::AllGather>(call)) stream.push(std::make_unique<QuickGather>(counts));
    if (std::holds_alternative<comm::ReduceScatterAdd>(call)) stream.push(std::make_unique<SlowReduction>(counts));
  }
  device::Device::Block allocate_shared(const comm::Group&, comm::MemoryUse, std::size_t) override { return {}; }
  device::Device::Block allocate_own(const comm::Group&, std::size_t) override { return {}; }
  void set_staging(const comm::StagingMemory&) override {}

  Counts counts;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(gathers)

BOOST_AUTO_TEST_CASE(a_gather_overtakes_a_reduction_that_is_under_way) {
  test::SmallRun run;
  run.config.model.num_hidden_layers = 6;
  run.config.parallel.dp_shard_size = 4;
  const config::ValidConfig config = run.valid();
  const mesh::Place place(config, WorldRank(0));
  const std::int64_t tokens = 64;
  rank::RankPlan plan(config, {.tokens = tokens, .document_tokens = tokens}, place, {.kind = device::Kind::cpu});
  rank::RankPlan::Arenas arenas = plan.measure();
  const mesh::Groups groups = mesh::Groups::planned(place, parallel::sharing_of(plan.policy, 1));
  const std::unique_ptr<device::Device> device = device::make_null_device();
  TimedCollectives collectives;
  rank::RankWorkers workers(plan, config, groups, *device, collectives, rank::RehearsalTools(rank::Work::counted));
  const sequence::RowCut cut(tokens, 1);
  const sequence::AttentionSchedules schedules =
      sequence::make_schedules(config->parallel.attention_method(), model::attention_windows(config->model),
                               {{static_cast<std::int32_t>(tokens)}}, cut, 0);
  workers.units.parameters_written();
  workers.units.begin_step(2);
  for (int i = 0; i < 2; ++i) {
    workers.decoder.forward_backward(plan.upload.device, schedules, {}, plan.results.rows(0, model::Metric::count));
  }
  workers.units.finish_step();
  workers.streams.drain();
  BOOST_TEST(collectives.counts.reductions_under_way == 0);
  BOOST_TEST(collectives.counts.gathers_after_reductions > 6);
  BOOST_TEST(collectives.counts.overtaking == collectives.counts.gathers_after_reductions);
}

BOOST_AUTO_TEST_CASE(they_have_a_communicator_of_their_own_where_that_is_asked_for) {
  test::SmallRun run;
  run.config.parallel.dp_shard_size = 4;
  const mesh::Place place(run.valid(), WorldRank(0));
  const mesh::Groups together = mesh::Groups::planned(place, {}),
                     apart = mesh::Groups::planned(place, {.gathers_apart = true});
  BOOST_TEST((together.gathers == together.fsdp));
  BOOST_TEST(together.of_tensors().size() == 1U);
  BOOST_TEST(together.of_tensors().front().has_sums);
  const std::vector<comm::TensorGroup> groups = apart.of_tensors();
  BOOST_TEST_REQUIRE(groups.size() == 2U);
  BOOST_TEST((groups[0].group == apart.fsdp && groups[0].has_sums && groups[0].within == comm::Group()));
  BOOST_TEST((groups[1].group == apart.gathers && !groups[1].has_sums && groups[1].within == apart.fsdp));
  BOOST_TEST(apart.gathers.size() == 4);
}

BOOST_AUTO_TEST_SUITE_END()
