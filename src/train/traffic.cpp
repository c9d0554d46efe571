// SPDX-License-Identifier: Apache-2.0
#include "sft/train/traffic.hpp"

#include <algorithm>

#include "rank_plan.hpp"
#include "sft/core/cast.hpp"
#include "sft/device/factory.hpp"
#include "sft/device/format_bytes.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/model/activation_store.hpp"
#include "sft/model/decoder.hpp"
#include "sft/model/head_split.hpp"
#include "sft/ops/factory.hpp"
#include "sft/parallel/matrix_exchange.hpp"
#include "sft/parallel/shard_reduction.hpp"
#include "sft/parallel/sharded_units.hpp"
#include "sft/sequence/attention_schedule.hpp"

namespace sft::train {

namespace {

/// Where a plan's blocks would leave their activations: nothing is copied.
class NullActivationStore final : public model::ActivationStore {
 public:
  void save(std::size_t /*block*/, const std::vector<Tensor>& /*tensors*/) override {}
  void load(std::size_t /*block*/, const std::vector<Tensor>& /*tensors*/) override {}
  void wait(std::size_t /*block*/) override {}
};

/// The largest micro-batch.
sequence::AttentionSchedule schedule_of(const config::ValidConfig& config, const data::MicroBatchLimits& limits,
                                        const RankPlan& plan) {
  const int sp_size = plan.place.size(Axis::sp);
  const sequence::RowCut cut(plan.sizes.tokens * sp_size, sp_size);
  std::vector<std::int32_t> documents;
  for (std::int64_t left = limits.tokens; left > 0; left -= limits.document_tokens) {
    documents.push_back(checked_cast<std::int32_t>(std::min(left, limits.document_tokens)));
  }
  return sequence::make_schedule(config->parallel.attention_method(), {documents}, cut, plan.place.rank(Axis::sp));
}

}  // namespace

std::vector<comm::SentBytes> plan_traffic(const config::ValidConfig& config, const data::MicroBatchLimits& limits,
                                          const mesh::Place& place, const Machine& machine) {
  RankPlan plan(config, limits, place, machine);
  RankPlan::Arenas arenas = plan.measure();
  const int kv_replicas = model::kv_replicas(config->model, place.size(Axis::tp));
  const mesh::Groups groups = mesh::Groups::planned(place, parallel::sharing_of(plan.policy, kv_replicas));
  const std::unique_ptr<device::Device> device = device::make_null_device();
  const std::unique_ptr<device::Stream> stream = device->make_stream();
  const std::unique_ptr<ops::Backend> ops = ops::make_null_backend(*stream);
  comm::TrafficCounter counter;
  parallel::TensorParallel tp(groups.tp, *device, counter, *stream, *stream, plan.sizes.token_slices > 1);
  parallel::ShardedUnits units(plan.storage, plan.unit_buffers, plan.policy, plan.slots, groups, *device, *ops, counter,
                               *stream);
  const auto attention = plan.attention->make_attention(groups.sp, *device, *ops, counter, *stream);
  NullActivationStore activation_store;
  model::Decoder decoder({config->model, plan.sizes, *device, *ops, units, tp, *attention, plan.decoder.adapters},
                         plan.architecture.parameters, plan.decoder, &activation_store);

  // The first micro-batch of a step, one in the middle and the last differ: of more than three, the middle one counts
  // several times.
  const std::int64_t num_micro_batches = config->train.gradient_accumulation_steps;
  const std::int64_t num_played = std::min<std::int64_t>(num_micro_batches, 3);
  const sequence::AttentionSchedule schedule = schedule_of(config, limits, plan);
  const Tensor metrics = plan.results.rows(0, num_metrics);
  units.parameters_written();
  units.begin_step(num_played);
  std::vector<comm::SentBytes> middle;
  for (std::int64_t i = 0; i < num_played; ++i) {
    const auto before = std::vector<comm::SentBytes>(counter.sent());
    decoder.forward_backward(plan.upload.device, schedule, 1.0, metrics, 0);
    if (i != 1) continue;
    middle = counter.sent();
    for (std::size_t group = 0; group < before.size(); ++group) middle[group].bytes -= before[group].bytes;
  }
  units.finish_step();
  parallel::MatrixExchange matrices(plan.matrix_deal, plan.storage, groups, *ops, counter);
  matrices.for_each([](const parallel::WholeMatrix&) {});
  parallel::ShardReduction reduction(groups, *ops, counter);
  plan.optimizer->use({matrices, reduction});
  if (plan.optimizer->max_shared_bytes() > 0) plan.optimizer->share(plan.storage, *ops);

  std::vector<comm::SentBytes> sent = counter.sent();
  for (std::size_t group = 0; group < middle.size(); ++group) {
    sent[group].bytes += middle[group].bytes * (num_micro_batches - num_played);
  }
  return sent;
}

std::string describe_traffic(const std::vector<comm::SentBytes>& sent) {
  std::string text;
  for (const comm::SentBytes& group : sent) {
    text +=
        (text.empty() ? "" : ", ") + group.group + " " + device::format_bytes(static_cast<std::size_t>(group.bytes));
  }
  return text.empty() ? "nothing" : text;
}

}  // namespace sft::train
