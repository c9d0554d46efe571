// SPDX-License-Identifier: Apache-2.0
#include "summary.hpp"

#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "sft/core/format.hpp"
#include "sft/core/table.hpp"
#include "sft/train/console.hpp"

namespace sft::train {

namespace {

/// "0.07457 at step 1400"
std::string describe(const LossCourse::Point& point) {
  std::array<char, 64> text{};
  std::snprintf(text.data(), text.size(), "%.5f at step %lld", point.loss, static_cast<long long>(point.step));
  return text.data();
}

/// "4.56799 at step 20, 0.07457 at step 1400"; empty without any.
std::string describe(const std::optional<LossCourse::Point>& first, const std::optional<LossCourse::Point>& last) {
  if (!first) return "";
  return describe(*first) + (last->step == first->step ? "" : ", " + describe(*last));
}

/// "1400 of 1400 steps, 26.1 epochs; 2.79 M tokens, 5.92 k a second", the last two of this process.
std::string describe_steps(const RunSummary& summary) {
  std::ostringstream text;
  text.precision(3);
  text << summary.step << " of " << plural(summary.last_step, "step") << ", " << summary.epoch << " epochs";
  if (summary.num_steps > 0) {
    text << "; " << format_count(static_cast<double>(summary.num_tokens)) << " tokens"
         << (summary.num_steps < summary.step ? " since step " + std::to_string(summary.step - summary.num_steps) : "")
         << ", " << format_count(static_cast<double>(summary.num_tokens) / summary.step_time_s) << " tokens/s";
  }
  return text.str();
}

/// "planned 56.10 GiB, peak 56.40 GiB of the GPU on rank 3; planned 3.1 s a step, took 3.3 s"
std::string describe_plan(const RunSummary& summary) {
  const HighestPeak& memory = summary.memory;
  std::ostringstream text;
  text.precision(3);
  text << "planned " << format_bytes(memory.planned_bytes) << ", peak " << format_bytes(memory.peak_bytes)
       << (summary.is_gpu ? " of the GPU" : "") << " on rank " << memory.rank;
  if (summary.planned_step_s > 0 && summary.num_steps > 0) {
    text << "; planned " << summary.planned_step_s << " s a step, took " << summary.took_step_s << " s";
  }
  return text.str();
}

}  // namespace

LossCourse read_loss_course(const std::string& path) {
  LossCourse course;
  std::ifstream lines(path);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    if (!json.is_object() || !json.contains("step")) continue;
    const bool is_evaluation = json.contains("eval_loss");
    const auto loss = json.find(is_evaluation ? "eval_loss" : "loss");
    if (loss == json.end() || !loss->is_number()) continue;
    const LossCourse::Point point{json["step"].get<std::int64_t>(), loss->get<double>()};
    std::optional<LossCourse::Point>& first = is_evaluation ? course.first_eval : course.first;
    if (!first) first = point;
    (is_evaluation ? course.last_eval : course.last) = point;
    if (is_evaluation && (!course.best || point.loss < course.best->loss)) course.best = point;
  }
  return course;
}

HighestPeak gather_highest_peak(device::Device& device, const device::Ledger& ledger, const comm::Group& world) {
  const auto peak = static_cast<std::int64_t>(device.peak_bytes());
  std::array<std::int64_t, 1> highest{peak};
  world.max(std::span<std::int64_t>(highest));
  std::array<std::int64_t, 1> distance{peak == highest[0] ? world.size() - world.rank() : 0};  // from the end
  world.max(std::span<std::int64_t>(distance));
  const int rank = world.size() - static_cast<int>(distance[0]);
  const bool is_gpu = device.kind() == device::Kind::cuda;
  const std::size_t on_node = is_gpu ? ledger.node_bytes(device.kind()) : 0;
  std::array<std::int64_t, 1> planned{rank == world.rank() ? static_cast<std::int64_t>(ledger.total_bytes() - on_node)
                                                           : 0};
  world.max(std::span<std::int64_t>(planned));
  return {static_cast<std::size_t>(highest[0]), static_cast<std::size_t>(planned[0]), rank};
}

std::string describe(const RunSummary& summary) {
  Table table({Align::left, Align::left}, 2);
  const auto add = [&](const char* label, const std::string& text) {
    if (!text.empty()) table.add({label, text});
  };
  const LossCourse& losses = summary.losses;
  const bool is_best_before = losses.best && losses.best->step != losses.last_eval->step;
  add("steps", describe_steps(summary));
  add("loss", describe(losses.first, losses.last));
  add("eval loss",
      describe(losses.first_eval, losses.last_eval) + (is_best_before ? ", lowest " + describe(*losses.best) : ""));
  const auto add_lines = [&](const char* label, const std::vector<std::string>& lines) {
    for (const std::string& line : lines) table.add({&line == lines.data() ? label : "", line});
  };
  add_lines("goodput", summary.goodput);
  add("plan vs run", describe_plan(summary));
  add_lines("next", summary.next);
  std::string text =
      (summary.is_done ? "done in " : "stopped after ") + format_duration(summary.time_s) + "\n" + table.text();
  text.pop_back();
  return text;
}

}  // namespace sft::train
