// SPDX-License-Identifier: Apache-2.0
#include "sft/planner/step_time.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <numeric>

#include "planner/attention_rates.hpp"
#include "sft/model/flops.hpp"
#include "sft/model/head_split.hpp"
#include "sft/model/layer_plan.hpp"
#include "sft/rank/rehearsal.hpp"
#include "sft/rank/updates.hpp"
#include "sft/simulator/clocked_collectives.hpp"
#include "sft/simulator/clocked_device.hpp"
#include "sft/simulator/clocked_tools.hpp"

namespace sft::planner {

namespace {

/// The ranks of each group of the mesh, by its name, that the rank at `place` is in.
std::map<std::string, simulator::Span> spans_of(const mesh::Groups& groups, const mesh::Place& place,
                                                const mesh::Sharing& sharing, int ranks_per_node) {
  const mesh::Layout& layout = place.layout();
  std::map<std::string, simulator::Span> spans;
  const auto add = [&](const comm::Group& group, const AxisSet& axes) {
    std::vector<WorldRank> members = layout.members(place.rank(), axes);
    const std::size_t first = static_cast<std::size_t>(place.rank(axes)) / group.size() * group.size();
    members = {members.begin() + static_cast<std::ptrdiff_t>(first),
               members.begin() + static_cast<std::ptrdiff_t>(first) + group.size()};
    spans[group.name()] = simulator::span_of(members, ranks_per_node);
  };
  const AxisSet replicated = replica_axes.without(sharing.shard_axes);
  add(groups.world, every_axis);
  add(groups.replicate, replicated);
  for (const comm::Group& group : {groups.fsdp, groups.gathers, groups.reshard}) add(group, sharing.shard_axes);
  add(groups.sp, {Axis::sp});
  for (const comm::Group& group : {groups.tp, groups.kv_replicas}) add(group, {Axis::tp});
  add(groups.ep, {Axis::ep});
  if (groups.ep.size() == 1) return spans;
  add(groups.expert_replicate, replicated.without({Axis::ep}));
  for (const comm::Group& group : {groups.expert_fsdp, groups.expert_gathers, groups.expert_reshard}) {
    add(group, sharing.shard_axes.without({Axis::ep}));
  }
  return spans;
}

/// What the clocks say at one moment, or between two.
struct Reading {
  double now_s = 0, busy_s = 0;
  simulator::OpTimes op_times = {};
  std::map<std::string, double> exposed_s;

  Reading& add(const Reading& other, double factor) {
    now_s += factor * other.now_s;
    busy_s += factor * other.busy_s;
    for (std::size_t i = 0; i < op_times.size(); ++i) op_times[i] += factor * other.op_times[i];
    for (const auto& [what, seconds] : other.exposed_s) exposed_s[what] += factor * seconds;
    return *this;
  }
};

Reading read_clocks(const simulator::ClockedStream& compute, const simulator::ClockedCollectives& collectives,
                    bool overlaps) {
  Reading reading{.now_s = compute.now_s(),
                  .busy_s = compute.busy_s(),
                  .op_times = compute.op_times(),
                  .exposed_s = compute.waited_s()};
  for (const simulator::GroupTime& group : collectives.times()) {
    reading.exposed_s[group.group] += overlaps ? group.on_compute_s : group.all_s;
    reading.busy_s -= group.on_compute_s;
  }
  return reading;
}

/// FLOPs of a micro-batch, as `mfu` of a run counts them but for what windows hide.
double model_flops(const config::ValidConfig& config, const std::vector<std::int32_t>& documents) {
  const IndexedVector<sequence::AttentionKind, double> hidden(model::attention_windows(config->model).size());
  model::TokenCounts tokens{.masked_squares = hidden};
  for (const auto length : documents) {
    tokens.num_tokens += length;
    tokens.length_squares += static_cast<double>(length) * length;
  }
  return model::model_flops(*model::shared_architecture(config), config->lora.use_peft, tokens);
}

/// What the threads of all ranks tell each other on the way, which a processor does instead of computing: the counts of
/// a step, and with each micro-batch whether all go on.
void play_talk(rank::Rehearsal& rehearsal, comm::Collectives& collectives, const simulator::Hardware& hardware) {
  if (hardware.rates.overlaps) return;
  collectives.all_reduce(rehearsal.groups().world, rehearsal.plan().results, comm::ReduceOp::sum,
                         *rehearsal.workers().streams.compute);
}

/// Opens what keeps the state of optimizers, but for files. Seconds of what lies in these.
double open_optimizers(rank::RankPlan& plan, const rank::Updates& updates, device::Device& device,
                       const simulator::Hardware& hardware) {
  std::uint64_t file_bytes = 0;
  for (const rank::TrainedPart& part : plan.trained) {
    file_bytes += part.optimizer->file_bytes();
    if (part.optimizer->file_bytes() > 0) continue;
    part.optimizer->open(device, updates.stream(), part.storage, /*folder=*/"");
  }
  return 2 * static_cast<double>(file_bytes) * hardware.ranks_per_node / hardware.write_bytes_per_s;
}

}  // namespace

double StepTime::exposed_s() const {
  return std::accumulate(exposed.begin(), exposed.end(), 0.0,
                         [](double sum, const Exposed& wait) { return sum + wait.seconds; });
}

double StepTime::mfu(const simulator::Hardware& hardware) const {
  if (hardware.peak_flops_per_s == 0 || step_s == 0) return 0;
  return model_flops / step_s / (hardware.peak_flops_per_s * hardware.num_ranks());
}

StepTime plan_step_time(const config::ValidConfig& config, const rows::MicroBatchLimits& limits,
                        const mesh::Place& place, const rank::Machine& machine, const simulator::Hardware& hardware) {
  return plan_step_time(config, rank::documents_of(limits), place, machine, hardware);
}

StepTime plan_step_time(const config::ValidConfig& config, const std::vector<std::int32_t>& documents,
                        const mesh::Place& place, const rank::Machine& machine, const simulator::Hardware& hardware) {
  const parallel::ShardingPolicy policy = parallel::sharding_policy(config->parallel);
  const mesh::Sharing sharing =
      parallel::sharing_of(policy, model::kv_replicas(config->model, config->parallel.tp_size));
  const mesh::Groups groups = mesh::Groups::planned(place, sharing);
  const std::map<std::string, simulator::Span> spans = spans_of(groups, place, sharing, hardware.ranks_per_node);
  simulator::Rates rates = with_attention_of(hardware.rates, *config);
  rates.file_bytes_per_s = hardware.write_bytes_per_s / hardware.ranks_per_node;
  simulator::ClockedDevice device(rates);
  simulator::ClockedCollectives collectives(hardware.network,
                                            [&](const comm::Group& group) { return spans.at(group.name()); });
  rank::RankPlan plan(config, rank::limits_of(documents), place, machine);
  rank::Rehearsal rehearsal(config, plan, documents, device, collectives, simulator::ClockedTools());
  const simulator::ClockedStream& compute = simulator::clocked(*rehearsal.workers().streams.compute);
  const auto now = [&] { return read_clocks(compute, collectives, hardware.rates.overlaps); };

  rank::Updates updates(plan, rehearsal.workers(), device, rank::Updates::Files::left_out);
  const double file_s = open_optimizers(plan, updates, device, hardware);
  constexpr std::int64_t number = 1;
  const double learning_rate = config->optimizer.learning_rate;

  // From the moment at which all ranks know loss and norm of a step to that of the next one.
  const Reading begin = now();
  updates.update(number, learning_rate, /*gradient_scale=*/1.0);
  play_talk(rehearsal, collectives, hardware);
  rehearsal.begin_step();
  Reading middle;
  for (std::int64_t i = 0; i < rehearsal.num_played(); ++i) {
    if (i + 1 == rehearsal.num_played()) updates.before_last_micro_batch(number, learning_rate, /*is_certain=*/true);
    const Reading before = now();
    rehearsal.play_micro_batch();
    play_talk(rehearsal, collectives, hardware);
    if (i == 1) middle = now().add(before, -1);
  }
  updates.finish_gradients();
  collectives.all_reduce(groups.world, plan.results, comm::ReduceOp::sum, *rehearsal.workers().streams.compute);
  Reading step = now().add(begin, -1).add(middle, static_cast<double>(rehearsal.num_left()));
  if (file_s > 0) step.exposed_s["files"] += file_s;

  StepTime time{.step_s = step.now_s + file_s, .ops_s = step.busy_s, .op_times = step.op_times, .exposed = {}};
  const auto num_micro_batches = static_cast<double>(config->train.gradient_accumulation_steps * place.data_size());
  time.model_flops = num_micro_batches * model_flops(config, documents);
  for (const auto& [what, seconds] : step.exposed_s) {
    if (seconds > 0) time.exposed.push_back({what, seconds});
  }
  std::ranges::stable_sort(time.exposed, std::ranges::greater(), &Exposed::seconds);
  return time;
}

double run_s(std::int64_t num_steps, const StepTime& time, const simulator::Hardware& hardware) {
  return hardware.start_s + static_cast<double>(num_steps) * time.step_s;
}

std::string describe(const StepTime& time, const simulator::Hardware& hardware) {
  std::vector<std::string> waits;
  for (const Exposed& wait : time.exposed) {
    const double share = wait.seconds / time.step_s;
    constexpr double least_told = 0.005;
    if (share < least_told) continue;
    waits.push_back(fmt::format("{} {:.2g} s ({:.0f} %)", wait.what, wait.seconds, 100 * share));
  }
  const double mfu = time.mfu(hardware);
  return fmt::format("{:.3g} s on {}{}; exposed communication: {}", time.step_s, hardware.name,
                     mfu > 0 ? fmt::format(", {:.0f} % MFU", 100 * mfu) : "",
                     waits.empty() ? "none" : fmt::format("{}", fmt::join(waits, ", ")));
}

std::vector<std::pair<std::string, double>> named_op_times(const StepTime& time) {
  std::vector<std::pair<std::string, double>> named;
  for (std::size_t i = 0; i < time.op_times.size(); ++i) {
    if (time.op_times[i] > 0) named.emplace_back(simulator::op_kind_name(i), time.op_times[i]);
  }
  return named;
}

std::string describe_ops(const StepTime& time) {
  using ops::Pass;
  using simulator::OpKind;
  using simulator::ProductForm;
  struct Part {
    const char* name;
    std::vector<simulator::OpKind> kinds;
  };
  const std::vector<Part> parts{
      {"products",
       {simulator::ProductForm::second, simulator::ProductForm::none, simulator::ProductForm::first,
        simulator::OpKind::fp8_product()}},
      {"attention", {simulator::OpKind::attention_forward(), simulator::OpKind::attention_backward()}},
      {"norms and rotations", {Pass::norm_forward, Pass::norm_backward, Pass::rope}},
      {"activations of MLPs", {Pass::mlp_forward, Pass::mlp_backward}},
      {"loss", {Pass::loss_forward, Pass::loss_backward}},
      {"embedding", {Pass::embedding_forward, Pass::embedding_backward}},
      {"optimizer and gradient norm", {Pass::update, Pass::sum_squares}},
      {"copies and sums", {Pass::copy, Pass::add}}};
  std::vector<std::pair<double, const char*>> shares;
  for (const Part& part : parts) {
    double seconds = 0;
    for (const simulator::OpKind kind : part.kinds) seconds += time.op_times[kind.index()];
    constexpr double least_told = 0.005;
    if (seconds >= least_told * time.step_s && seconds > 0) shares.emplace_back(seconds / time.step_s, part.name);
  }
  std::ranges::stable_sort(shares, std::ranges::greater(), &std::pair<double, const char*>::first);
  std::vector<std::string> texts;
  for (const auto& [share, name] : shares) texts.push_back(fmt::format("{} {:.0f} %", name, 100 * share));
  return fmt::format("{}", fmt::join(texts, ", "));
}

}  // namespace sft::planner
