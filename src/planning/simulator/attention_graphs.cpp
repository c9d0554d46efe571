// SPDX-License-Identifier: Apache-2.0
#include "sft/simulator/attention_graphs.hpp"

#include <algorithm>
#include <iterator>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "sft/comm/traffic.hpp"
#include "sft/device/factory.hpp"
#include "sft/rank/coming_attention.hpp"
#include "sft/rank/rehearsal.hpp"
#include "sft/rank/rehearsal_tools.hpp"
#include "sft/rank/run_length.hpp"

namespace sft::simulator {

namespace {

/// Micro-batches of training and of an evaluation.
struct Coming {
  std::vector<rows::ComingMicroBatch> train, eval;
};

/// What all data ranks will get.
Coming read_coming(const config::ValidConfig& config, const rank::Datasets& datasets, std::int64_t first_step) {
  const std::int64_t num_rows = datasets.train.num_rows(),
                     last_step = rank::num_steps(config, num_rows, datasets.origin);
  const mesh::Place first(config, 0);
  Coming coming;
  std::set<int> data_ranks;
  for (int rank = 0; rank < first.layout().size(); ++rank) {
    const mesh::Place place = first.peer(WorldRank::from(rank));
    if (!data_ranks.insert(place.data_rank()).second) continue;
    const auto read = [](const rows::PackedDataset& dataset, const rows::LoaderPlan& plan, auto& into) {
      std::ranges::move(rows::coming_documents(dataset, plan, rank::rows_looked_at), std::back_inserter(into));
    };
    read(datasets.train,
         rank::loader_plan(config, place, num_rows, first_step, last_step, datasets.limits(config), datasets.origin),
         coming.train);
    if (datasets.eval) read(*datasets.eval, rank::eval_loader_plan(config, place, datasets), coming.eval);
  }
  return coming;
}

/// Schedules whose calls ask for the same graphs once their documents are expected have the same words.
std::string kinds_of(const sequence::AttentionSchedules& schedules) {
  std::string kinds;
  for (const sequence::AttentionSchedule& schedule : schedules) {
    for (const sequence::AttentionRound& round : schedule.rounds) {
      kinds += ops::kinds_of_attention(round.spans, schedule.num_tokens, schedule.num_keys);
    }
  }
  return kinds;
}

}  // namespace

std::vector<ops::AttentionGraph> list_attention(const config::ValidConfig& config, const rank::Datasets& datasets,
                                                const rank::Machine& machine, std::int64_t first_step) {
  const Coming coming = read_coming(config, datasets, first_step);
  const mesh::Place first(config, 0);
  std::vector<ops::AttentionGraph> all;
  std::set<int> sp_ranks;  // ranks that differ in other axes alone have the same tensors
  for (int rank = 0; rank < first.layout().size(); ++rank) {
    const mesh::Place place = first.peer(WorldRank::from(rank));
    if (!sp_ranks.insert(place.rank(Axis::sp)).second) continue;
    const std::unique_ptr<device::Device> device = device::make_null_device();
    comm::TrafficCounter counter;
    rank::RankPlan plan(config, datasets.limits(config), place, machine);
    rank::Rehearsal rehearsal(config, plan, rank::documents_of(plan.limits), *device, counter,
                              rank::RehearsalTools(rank::Work::attention));
    const rows::LoaderPlan loader = rank::loader_plan(config, place, datasets.train.num_rows(), first_step, first_step,
                                                      datasets.limits(config), datasets.origin);
    std::set<std::string> kinds;
    for (const auto& [batches, is_trained] : {std::pair(&coming.train, true), {&coming.eval, false}}) {
      for (const rows::ComingMicroBatch& batch : *batches) {
        const sequence::AttentionSchedules schedules = rank::schedules_of(loader, batch);
        rank::expect_attention(*rehearsal.workers().ops, schedules);
        if (!kinds.insert((is_trained ? "t" : "e") + kinds_of(schedules)).second) continue;
        if (is_trained) {
          rehearsal.begin_step();
          for (std::int64_t i = 0; i < rehearsal.num_played(); ++i) rehearsal.play_micro_batch(schedules);
          rehearsal.finish_step();
        } else {
          rehearsal.play_evaluation(schedules);
        }
      }
    }
    for (const ops::AttentionGraph& graph : ops::listed_attention(*rehearsal.workers().ops)) {
      if (std::ranges::find(all, graph) == all.end()) all.push_back(graph);
    }
  }
  return all;
}

}  // namespace sft::simulator
