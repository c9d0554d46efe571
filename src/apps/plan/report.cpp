// SPDX-License-Identifier: Apache-2.0
#include "report.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>

#include "sft/config/values.hpp"
#include "sft/core/format.hpp"
#include "sft/core/labelled_lines.hpp"
#include "sft/core/table.hpp"
#include "sft/mesh/place.hpp"
#include "sft/model/flops.hpp"

namespace sft::apps {

namespace {

using planner::Candidate;

std::string mesh_of(const Candidate& candidate) { return mesh::layout_of(candidate.config->parallel).describe(); }

/// "full, offloaded; moments and weights on the host"
std::string savings_of(const Candidate& candidate) {
  const config::Train& train = candidate.config->train;
  std::vector<std::string> parts;
  if (train.activation_checkpointing != config::ActivationCheckpointing::none) {
    parts.push_back(fmt::format("checkpointing {}{}", config::write(train.activation_checkpointing),
                                train.activation_offload ? ", offloaded" : ""));
  }
  if (const std::int64_t tile_tokens = train.mlp_tile_tokens.value_or(0); tile_tokens > 0) {
    parts.push_back(fmt::format("MLPs in tiles of {}", tile_tokens));
  }
  if (const std::int64_t groups = train.attention_head_groups.value_or(1); groups > 1) {
    parts.push_back(fmt::format("attention in {} groups of heads", groups));
  }
  if (train.offload_optimizer != config::Offload::none) {
    parts.push_back(fmt::format("optimizer in {}", config::write(train.offload_optimizer)));
  }
  if (train.offload_parameters != config::Offload::none) {
    parts.push_back(fmt::format("parameters in {}", config::write(train.offload_parameters)));
  }
  return parts.empty() ? "none" : fmt::format("{}", fmt::join(parts, "; "));
}

double tokens_of_step(const planner::PlanTask& task) {
  const double row_tokens = task.lengths ? task.lengths->row_tokens : static_cast<double>(task.max_length);
  return static_cast<double>(task.rows_per_step) * row_tokens;
}

/// Of the memory that is the scarcer one.
std::string memory_of(const Candidate& candidate, const simulator::Hardware& hardware) {
  return hardware.kind == device::Kind::cuda
             ? fmt::format("{} of {}", format_bytes(candidate.memory.device_bytes), format_bytes(hardware.device_bytes))
             : fmt::format("{} of {}", format_bytes(candidate.memory.node_bytes), format_bytes(hardware.node_bytes));
}

std::size_t spare_bytes(const Candidate& candidate, const simulator::Hardware& hardware) {
  return hardware.kind == device::Kind::cuda ? hardware.device_bytes - candidate.memory.device_bytes
                                             : hardware.node_bytes - candidate.memory.node_bytes;
}

/// "the largest part are 96 GiB of activations"
std::string largest_part(const Candidate& candidate) {
  device::Label largest = device::Label::parameters;
  for (std::size_t i = 0; i < device::num_labels; ++i) {
    const auto label = static_cast<device::Label>(i);
    if (candidate.memory.fullest.bytes(label) > candidate.memory.fullest.bytes(largest)) largest = label;
  }
  return fmt::format("the largest part are {} of {}", format_bytes(candidate.memory.fullest.bytes(largest)),
                     device::name_of(largest));
}

/// "12 GiB to spare; computes 91 % of the time; waits for gathers 5 %, tp 3 %"
std::string reasons_of(const Candidate& candidate, const simulator::Hardware& hardware) {
  const planner::StepTime& time = candidate.time;
  std::vector<std::string> waits;
  for (const planner::Exposed& wait : time.exposed) {
    constexpr double least_told = 0.01;
    if (wait.seconds < least_told * time.step_s) continue;
    waits.push_back(fmt::format("{} {:.0f} %", wait.what, 100 * wait.seconds / time.step_s));
  }
  return fmt::format("{} to spare; computes {:.0f} % of the time, waits for {}",
                     format_bytes(spare_bytes(candidate, hardware)), 100 * time.ops_s / time.step_s,
                     waits.empty() ? "nothing" : fmt::format("{}", fmt::join(waits, ", ")));
}

std::string table_of(const PlanReport& report) {
  Table table({Align::right, Align::left, Align::left, Align::left, Align::left, Align::right, Align::right,
               Align::right, Align::right, Align::left},
              2);
  table.add(
      {"", "mesh", "stage", "attention", "savings", "rows x micro-batches", "s a step", "tokens/s", "MFU", "memory"});
  for (std::size_t i = 0; i < report.result.best.size(); ++i) {
    const Candidate& candidate = report.result.best[i];
    const config::Config& c = *candidate.config;
    const double mfu = candidate.time.mfu(report.task.hardware);
    table.add({fmt::format("{}", i + 1), mesh_of(candidate), fmt::format("{}", c.parallel.zero_stage),
               c.parallel.sp_size > 1 ? config::write(c.parallel.sp_method) : "-", savings_of(candidate),
               fmt::format("{} x {}", c.train.per_device_train_batch_size, c.train.gradient_accumulation_steps),
               fmt::format("{:.3g}", candidate.time.step_s),
               fmt::format("{:.4g}", tokens_of_step(report.task) / candidate.time.step_s),
               mfu > 0 ? fmt::format("{:.0f} %", 100 * mfu) : "-", memory_of(candidate, report.task.hardware)});
  }
  return table.text();
}

std::string describe_obvious(const PlanReport& report) {
  const Candidate& obvious = *report.obvious;
  if (const std::size_t missing = obvious.memory.missing_bytes(report.task.hardware); missing > 0) {
    return fmt::format("does not fit: {}, {} too much; {}", memory_of(obvious, report.task.hardware),
                       format_bytes(missing), largest_part(obvious));
  }
  return fmt::format("fits, and takes {:.3g} s a step", obvious.time.step_s);
}

std::string describe_run(const PlanReport& report) {
  constexpr double hour_s = 3600;
  const simulator::Hardware& hardware = report.task.hardware;
  const double tokens = static_cast<double>(report.num_steps) * tokens_of_step(report.task);
  const std::string start =
      hardware.start_s > 0 ? fmt::format(", {} of them to start", format_seconds(hardware.start_s)) : "";
  return fmt::format("{} steps, {:.4g} tokens: {:.3g} hours{}", report.num_steps, tokens,
                     planner::run_s(report.num_steps, report.result.best.front().time, hardware) / hour_s, start);
}

std::string explain(const PlanReport& report, std::size_t number) {
  const Candidate& candidate = report.result.best[number - 1];
  LabelledLines lines;
  for (const config::Difference& key : keys_of(report.task, candidate)) {
    lines.add(fmt::format("{}.{}", key.section, key.name), key.now);
  }
  Table memory({Align::left, Align::right}, 2);
  for (std::size_t i = 0; i < device::num_labels; ++i) {
    const auto label = static_cast<device::Label>(i);
    const std::size_t bytes = candidate.memory.fullest.bytes(label);
    if (bytes > 0) memory.add({device::name_of(label), format_bytes(bytes)});
  }
  return fmt::format("\nplan {}: {}\nops: {}\n{}\nmemory of the fullest rank\n{}", number,
                     describe(candidate.time, report.task.hardware), describe_ops(candidate.time), lines.text(),
                     memory.text());
}

nlohmann::ordered_json json_of(const PlanReport& report, const Candidate& candidate) {
  const config::Config& c = *candidate.config;
  nlohmann::ordered_json json;
  const mesh::Layout layout = mesh::layout_of(c.parallel);
  for (const Axis axis : layout.named_axes()) json["mesh"][std::string(name_of(axis))] = layout[axis];
  for (const config::Difference& key : keys_of(report.task, candidate)) {
    json["keys"][fmt::format("{}.{}", key.section, key.name)] = key.now;
  }
  json["fits"] = candidate.memory.missing_bytes(report.task.hardware) == 0;
  json["device_bytes"] = candidate.memory.device_bytes;
  json["node_bytes"] = candidate.memory.node_bytes;
  for (std::size_t i = 0; i < device::num_labels; ++i) {
    const auto label = static_cast<device::Label>(i);
    json["fullest_rank_bytes"][device::name_of(label)] = candidate.memory.fullest.bytes(label);
  }
  if (candidate.time.step_s == 0) return json;
  json["step_s"] = candidate.time.step_s;
  json["tokens_per_s"] = tokens_of_step(report.task) / candidate.time.step_s;
  json["mfu"] = candidate.time.mfu(report.task.hardware);
  json["ops_s"] = candidate.time.ops_s;
  for (const auto& [name, seconds] : named_op_times(candidate.time)) json["op_s"][name] = seconds;
  for (const planner::Exposed& wait : candidate.time.exposed) json["exposed_s"][wait.what] = wait.seconds;
  return json;
}

}  // namespace

double PlanReport::save_s() const {
  const double bytes_of_node = static_cast<double>(save.bytes) / task.hardware.num_nodes;
  return bytes_of_node / task.hardware.write_bytes_per_s;
}

std::vector<config::Difference> keys_of(const planner::PlanTask& task, const Candidate& candidate) {
  constexpr std::array searched{"parallel", "train", "optimizer"};
  std::vector<config::Difference> keys = config::differences(task.base, *candidate.config);
  std::erase_if(
      keys, [&](const config::Difference& key) { return std::ranges::find(searched, key.section) == searched.end(); });
  return keys;
}

std::string describe(const PlanReport& report, int explained) {
  const planner::PlanTask& task = report.task;
  const planner::SearchCounts& counts = report.result.counts;
  LabelledLines lines;
  lines.add("machine", fmt::format("{}: {} of {}, {}", task.hardware.name, plural(task.hardware.num_nodes, "node"),
                                   plural(task.hardware.ranks_per_node, "rank"), task.hardware.description));
  lines.add("task", fmt::format("{:.3g} parameters, {} of {} tokens a step",
                                static_cast<double>(model::weight_counts(task.base.model).all),
                                plural(task.rows_per_step, "row"), task.max_length) +
                        (task.lengths ? fmt::format(", of which {:.0f} are filled, in documents of {:.0f}",
                                                    task.lengths->row_tokens, task.lengths->document_tokens)
                                      : ""));
  lines.add("looked at",
            fmt::format("{} legal plans, of which {} fit, in {:.1f} s", counts.legal, counts.fitting, report.search_s));
  LabelledLines rest;
  for (std::size_t i = 0; i < report.result.best.size(); ++i) {
    rest.add(fmt::format("plan {}", i + 1), reasons_of(report.result.best[i], task.hardware));
  }
  if (report.obvious) rest.add(fmt::format("dp_shard {}", task.hardware.num_ranks()), describe_obvious(report));
  if (report.smallest) {
    rest.add("least machine", fmt::format("{} of {} each", plural(report.smallest->num_nodes, "node"),
                                          plural(report.smallest->ranks_per_node, "rank")));
  } else {
    rest.add("least machine", "none of up to 64 such nodes");
  }
  if (report.result.best.empty()) {
    return fmt::format("{}\nnothing fits on this machine\n{}", lines.text(), rest.text());
  }
  rest.add("plan 1 fits", fmt::format("rows of up to {} tokens, or micro-batches of up to {}", report.longest_row,
                                      plural(report.largest_micro_batch, "row")));
  if (report.num_steps > 0) rest.add("run", describe_run(report));
  rest.add("checkpoint", fmt::format("{}: {:.2g} s to save, and as long to resume", format_bytes(report.save.bytes),
                                     report.save_s()));
  return fmt::format("{}\n{}\n{}{}", lines.text(), table_of(report), rest.text(),
                     explained > 0 ? explain(report, static_cast<std::size_t>(explained)) : "");
}

std::string to_json(const PlanReport& report) {
  nlohmann::ordered_json json{{"machine", report.task.hardware.name},
                              {"num_ranks", report.task.hardware.num_ranks()},
                              {"num_parameters", model::weight_counts(report.task.base.model).all},
                              {"rows_per_step", report.task.rows_per_step},
                              {"max_length", report.task.max_length},
                              {"legal", report.result.counts.legal},
                              {"fitting", report.result.counts.fitting},
                              {"rehearsed", report.result.counts.rehearsed},
                              {"search_s", report.search_s}};
  json["plans"] = nlohmann::ordered_json::array();
  for (const Candidate& candidate : report.result.best) json["plans"].push_back(json_of(report, candidate));
  if (report.obvious) json["obvious"] = json_of(report, *report.obvious);
  if (report.smallest) {
    json["smallest_machine"] = {{"num_nodes", report.smallest->num_nodes},
                                {"ranks_per_node", report.smallest->ranks_per_node}};
  }
  if (!report.result.best.empty()) {
    json["longest_row"] = report.longest_row;
    json["largest_micro_batch"] = report.largest_micro_batch;
    json["checkpoint_bytes"] = report.save.bytes;
    json["save_s"] = report.save_s();
    if (report.num_steps > 0) {
      json["num_steps"] = report.num_steps;
      json["run_s"] = planner::run_s(report.num_steps, report.result.best.front().time, report.task.hardware);
    }
  }
  return json.dump(2) + "\n";
}

}  // namespace sft::apps
