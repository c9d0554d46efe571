// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <string>
#include <tuple>
#include <vector>

#include "apps/common/machines.hpp"
#include "planned_run.hpp"
#include "planning.hpp"
#include "settle_attention.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "sft/core/table.hpp"
#include "sft/device/factory.hpp"
#include "sft/machine/node.hpp"
#include "sft/ops/attention_graphs.hpp"
#include "sft/ops/attention_trial.hpp"
#include "sft/ops/factory.hpp"
#include "sft/simulator/attention_graphs.hpp"

namespace sft::apps {

namespace {

void require_cudnn(const config::Config& config, const SftOptions& command) {
  ops::require_built(device::Kind::cuda);
  if (!ops::is_of_library(rank::attention_kernels(config.device, config.model))) {
    throw_config_error("there are no graphs of attention to compile",
                       fmt::format("device.attention = {} comes to the kernels of this program, which are compiled",
                                   config::write(config.device.attention)),
                       "set device.attention = cudnn, cudnn_forward or cudnn_unordered");
  }
  if (!command.machine.empty()) return;
  throw_config_error("graphs of attention are compiled for one kind of GPU", "none is named",
                     "add --machine, as h200x8 (share/sft/machines.ini)");
}

ops::AbsentGpu gpu_of(const simulator::Hardware& hardware) {
  if (hardware.kind != device::Kind::cuda) {
    throw_config_error(fmt::format("--machine {} is one of processors", hardware.name),
                       "graphs of attention are compiled for GPUs", "name a machine with GPUs");
  }
  return {.compute_capability = hardware.compute_capability,
          .multiprocessors = hardware.multiprocessors,
          .memory_bus_bits = hardware.memory_bus_bits,
          .memory_bytes = hardware.device_bytes,
          .driver_file = absent_driver_file()};
}

/// Those that the run tries at its start, and those of its micro-batches.
std::vector<ops::AttentionGraph> graphs_of(const PlannedRun& run, const ops::AttentionLibrary& library) {
  const std::unique_ptr<device::Device> device = device::make_null_device();
  const std::unique_ptr<device::Stream> stream = device->make_stream();
  std::vector<ops::AttentionGraph> graphs;
  const auto add = [&](const std::vector<ops::AttentionGraph>& more) {
    for (const ops::AttentionGraph& graph : more) {
      if (std::ranges::find(graphs, graph) == graphs.end()) graphs.push_back(graph);
    }
  };
  for (const ops::AttentionSizes& sizes :
       attention_trials(run.config, run.datasets.limits(run.config).tokens, library)) {
    const std::unique_ptr<ops::Backend> list =
        ops::make_attention_list(*stream, rank::attention_kernels(run.config->device, run.config->model));
    ops::note_attention_trial(*list, sizes);
    add(ops::listed_attention(*list));
  }
  const auto resumed = checkpoint::header_of_resume(*run.config);
  add(simulator::list_attention(run.config, run.datasets, run.machine, resumed ? resumed->position.step : 0));
  std::ranges::sort(graphs, {}, [](const ops::AttentionGraph& graph) {
    return std::tuple(graph.is_backward(), graph.is_rectangle(), graph.window, graph.longest, graph.documents,
                      graph.tokens);
  });
  return graphs;
}

std::string table_of(const std::vector<ops::StoredAttention>& stored) {
  Table table(
      {Align::left, Align::right, Align::right, Align::right, Align::right, Align::right, Align::right, Align::left});
  table.add({"pass", "documents", "longest", "keys", "window", "seconds", "bytes", ""});
  table.add_rule();
  for (const ops::StoredAttention& each : stored) {
    const ops::AttentionGraph& graph = each.graph;
    table.add({graph.is_backward() ? "backward" : "forward", fmt::format("{}", graph.documents),
               fmt::format("{}", graph.longest), graph.is_rectangle() ? fmt::format("{}", graph.longest_keys) : "-",
               graph.window > 0 ? fmt::format("{}", graph.window) : "-",
               each.was_stored ? "-" : fmt::format("{:.1f}", each.seconds), fmt::format("{}", each.bytes),
               !each.problem.empty() ? "refused"
               : each.was_stored     ? "was there"
                                     : "compiled"});
  }
  return table.text();
}

}  // namespace

void compile_attention(const config::ValidConfig& given, const SftOptions& command) {
  using Clock = std::chrono::steady_clock;
  require_cudnn(*given, command);
  const ops::AbsentGpu gpu = gpu_of(machine_named(command.machine));
  const ops::AttentionLibrary library = ops::find_attention_library();
  if (!library.problem.empty()) throw Error(ExitStatus::configuration, library.problem);
  const PlannedRun run = plan_run(given, command);
  if (const std::string why = why_no_library(run.config, library); !why.empty()) {
    log_info(fmt::format("no graphs of attention are compiled: the run takes this program's kernels, as {}", why));
    return;
  }
  const std::vector<ops::AttentionGraph> graphs = graphs_of(run, library);
  const machine::Cores cores = machine::cores_of_this_process();
  const int num_threads = cores.wanted_threads.value_or(cores.of_job);
  const Clock::time_point start = Clock::now();
  const std::vector<ops::StoredAttention> stored = ops::store_attention(graphs, gpu, num_threads);
  const double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  const auto num_refused = std::ranges::count_if(stored, [](const auto& each) { return !each.problem.empty(); });
  const auto num_there = std::ranges::count_if(stored, &ops::StoredAttention::was_stored);
  const auto num_all = std::ssize(stored);
  log_info(table_of(stored));
  log_info(fmt::format("{} of attention for {}, of {}, in {}: {} compiled by {} in {}, {} were there",
                       plural(num_all, "graph"), run.hardware->name, library.name, ops::attention_folder(),
                       num_all - num_there - num_refused, plural(num_threads, "thread"), format_seconds(seconds),
                       num_there));
  for (const ops::StoredAttention& each : stored) {
    if (each.problem.empty()) continue;
    log_warning(
        fmt::format("attention: this program's kernels where cuDNN refuses {} ({})", each.graph.name(), each.problem));
  }
}

}  // namespace sft::apps
