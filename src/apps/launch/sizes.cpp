// SPDX-License-Identifier: Apache-2.0
#include "sizes.hpp"

#include <algorithm>
#include <set>

#include "apps/common/choose_sizes.hpp"
#include "apps/common/machines.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/rows/packed_dataset.hpp"

namespace sft::apps {

namespace {

/// Tokens of a row, for the planner: of rows that are there, or as sft-prepare is asked to make them.
std::int64_t row_length_of(const launch::Request& request, const config::Config& config) {
  if (request.train.empty()) return rows::PackedDataset(config.data.train_files).max_length();
  constexpr std::int64_t default_length = 1024;
  const auto found = request.preparation.find("max_length");
  if (found == request.preparation.end()) return default_length;
  std::int64_t length = 0;
  if (!config::is_none(found->second)) config::read(found->second, length);
  if (length > 0) return length;
  throw_config_error("sizes are auto and `max_length = none`", "memory is planned for rows of a length",
                     "give a number: `sft-prepare ... --max_length none --stats` says how long documents are");
}

/// The machine that sizes are chosen for, with `num_ranks` ranks.
simulator::Hardware machine_of(const std::string& named, const launch::Request& request, const launch::Site& site,
                               const config::Config& config, int num_ranks) {
  const int num_nodes = std::max(1, std::min(num_ranks, request.num_machines.value_or(site.num_nodes)));
  const int ranks_per_node = (num_ranks + num_nodes - 1) / num_nodes;
  if (!named.empty()) {
    simulator::Hardware machine = machine_named(named);
    if (machine.num_ranks() == num_ranks) return machine;
    machine.num_nodes = num_nodes;
    machine.ranks_per_node = ranks_per_node;
    return machine;
  }
  const bool has_gpus = site.num_gpus > 0 && config.device.backend != config::BackendChoice::cpu;
  if (const auto machine = machine_at_hand(has_gpus, ranks_per_node, num_nodes)) return *machine;
  throw_config_error("sizes are auto, and the GPUs of this machine are of no kind that plans know",
                     "share/sft/machines.ini has the rates of those that they do",
                     "give --machine with one of them, or a file with the rates of yours");
}

}  // namespace

std::string choose_launch_sizes(launch::Request& request, const launch::Site& site, const std::string& machine_name,
                                config::Config& whole, config::Config& config) {
  const std::set<std::string> free = launch::free_sizes(request);
  if (free.empty()) return "";
  launch::Request without_batch = request;  // which is what the plan comes to
  without_batch.train_batch_size.reset();
  int num_ranks = launch::choose_num_ranks(without_batch, whole, site);
  if (!machine_name.empty() && !request.num_processes && !request.is_single_process) {
    num_ranks = machine_named(machine_name).num_ranks();
  }
  const ChosenSizes chosen = choose_sizes({.config = whole,
                                           .free = free,
                                           .hardware = machine_of(machine_name, request, site, whole, num_ranks),
                                           .max_length = row_length_of(request, config),
                                           .rows_per_step = launch::rows_of_step(request, whole, num_ranks)});
  if (!machine_name.empty() && !request.num_processes) request.num_processes = machine_named(machine_name).num_ranks();
  whole = chosen.config;
  config = config::parse(ini_of(chosen.keys), {}, "the plan", config);
  return chosen.why;
}

}  // namespace sft::apps
