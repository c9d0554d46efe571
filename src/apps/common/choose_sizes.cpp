// SPDX-License-Identifier: Apache-2.0
#include "choose_sizes.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <utility>

#include "machines.hpp"
#include "open_datasets.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"
#include "sft/launch/request.hpp"
#include "sft/machine/gpus.hpp"
#include "sft/machine/node.hpp"
#include "sft/mesh/place.hpp"
#include "sft/model/modules.hpp"
#include "sft/planner/search.hpp"

namespace sft::apps {

namespace {

/// "NVIDIA H100 80GB HBM3" -> "h100", where machines.ini has it; empty: it has not.
std::string machine_of_gpu(std::string name) {
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const char* known : {"h200", "h100", "a100"}) {
    if (name.find(known) != std::string::npos) return known;
  }
  return "";
}

/// [cpu] is of one core; a rank has its share of those of the node.
simulator::Hardware scaled_to_cores(simulator::Hardware machine) {
  const double cores = static_cast<double>(machine::cores_of_this_process().of_job) / machine.ranks_per_node;
  for (simulator::ProductRate& rate : machine.rates.products) rate.flops_per_s *= cores;
  machine.rates.attention_forward_flops_per_s *= cores;
  machine.rates.attention_backward_flops_per_s *= cores;
  machine.rates.memory_bytes_per_s *= cores;
  machine.rates.host_bytes_per_s *= cores;
  if (const auto bytes = machine::node_memory_bytes()) machine.node_bytes = *bytes;
  return machine;
}

/// "8 rows x 2, activation_checkpointing = full": what was chosen beside the mesh.
std::string describe_savings(const std::vector<config::Difference>& keys) {
  std::vector<std::string> parts;
  for (const config::Difference& key : keys) {
    if (key.name.ends_with("_size") && key.section == "parallel") continue;  // the mesh says it
    parts.push_back(fmt::format("{} = {}", key.name, key.now));
  }
  return parts.empty() ? "" : fmt::format(", {}", fmt::join(parts, ", "));
}

}  // namespace

std::optional<simulator::Hardware> machine_at_hand(bool has_gpus, int ranks_per_node, int num_nodes) {
  if (!has_gpus) return scaled_to_cores(machine_named(fmt::format("cpux{}x{}", ranks_per_node, num_nodes)));
  const std::vector<machine::Gpu> gpus = machine::visible_gpus().gpus;
  const std::string name = gpus.empty() ? "" : machine_of_gpu(gpus.front().name);
  if (name.empty()) return std::nullopt;
  simulator::Hardware machine = machine_named(fmt::format("{}x{}x{}", name, ranks_per_node, num_nodes));
  machine.device_bytes = gpus.front().memory_bytes;
  return machine;
}

std::string ini_of(const std::vector<config::Difference>& keys) {
  std::string text;
  for (const config::Difference& key : keys) text += fmt::format("[{}]\n{} = {}\n", key.section, key.name, key.now);
  return text;
}

ChosenSizes choose_sizes(const OpenSizes& open) {
  planner::PlanTask task{.base = open.config,
                         .fixed = {},
                         .hardware = open.hardware,
                         .max_length = open.max_length,
                         .rows_per_step = open.rows_per_step};
  config::Config& base = task.base;
  base.model = config::validate(base.model)->model;
  model::check_modules(base);
  base.data.train_files = {no_data};
  if (base.train.offload_folder.empty()) base.train.offload_folder = base.train.output_dir;
  base.device.backend =
      open.hardware.kind == device::Kind::cuda ? config::BackendChoice::cuda : config::BackendChoice::cpu;
  for (const std::string& size : launch::sizes_of_plans()) {
    if (!open.free.contains(size)) task.fixed.insert(size);
  }
  task.fixed.insert("reshard_after_forward");  // no size, so as it is given
  if (open.hardware.kind == device::Kind::cpu) task.process_bytes = machine::resident_bytes();  // of a rank, about
  task.num_threads = machine::num_threads_of_rank(machine::cores_of_this_process(), open.hardware.ranks_per_node);
  task.huge_page_bytes = machine::unasked_huge_page_bytes();
  const planner::SearchResult result = planner::search_plans(task);
  if (result.best.empty()) {
    const std::string rows = fmt::format("{} rows of {} tokens a step", open.rows_per_step, open.max_length);
    if (result.counts.legal == 0) {
      throw_config_error(fmt::format("there is no way to train on {} ranks", open.hardware.num_ranks()),
                         fmt::format("with {} and the sizes that are given no mesh is legal", rows),
                         "give another number of ranks, or of rows (ranks that read different rows divide them)");
    }
    throw_config_error(
        fmt::format("no way to train on {} ranks fits {}", open.hardware.num_ranks(), open.hardware.name),
        fmt::format("of {} legal ones for {} none does", result.counts.legal, rows),
        "use more ranks, a smaller --max_length or fewer rows, or leave more sizes to auto; sft-plan says what is "
        "missing");
  }
  const planner::Candidate& best = result.best.front();
  ChosenSizes chosen{.keys = {}, .config = open.config, .why = ""};
  for (const config::Difference& key : config::differences(open.config, *best.config)) {
    const bool has_meaning = key.name != "sp_method" || best.config->parallel.sp_size > 1;
    if (open.free.contains(key.name) && has_meaning) chosen.keys.push_back(key);
  }
  chosen.config = config::parse(ini_of(chosen.keys), {}, "the plan", open.config);
  const bool is_gpu = open.hardware.kind == device::Kind::cuda;
  chosen.why = fmt::format("{}{}: {} of {}; the fastest of {} ways that fit, of {} legal ones, by the rates of {}",
                           mesh::layout_of(best.config->parallel).describe(), describe_savings(chosen.keys),
                           format_bytes(is_gpu ? best.memory.device_bytes : best.memory.node_bytes),
                           format_bytes(is_gpu ? open.hardware.device_bytes : open.hardware.node_bytes),
                           result.counts.fitting, result.counts.legal, open.hardware.name);
  return chosen;
}

}  // namespace sft::apps
