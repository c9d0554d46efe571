// SPDX-License-Identifier: Apache-2.0
#include "reports.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <sstream>

#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/io/files.hpp"
#include "sft/report/text_exposition.hpp"
#include "sft/train/goodput.hpp"

namespace sft::train {

namespace {

bool has(const config::Train& config, config::Reporter reporter) {
  return std::ranges::find(config.report_to, reporter) != config.report_to.end();
}

/// The numbers of a line, but the step and its time.
std::vector<report::Scalar> scalars_of(const nlohmann::ordered_json& json) {
  std::vector<report::Scalar> scalars;
  for (const auto& [key, value] : json.items()) {
    if (value.is_number() && key != "step" && key != "time") scalars.push_back({key, value.get<double>()});
  }
  return scalars;
}

/// As transformers calls it there: train/loss, eval/loss.
std::string event_tag(const std::string& key) {
  constexpr std::string_view prefix = "eval_";
  const bool is_evaluation = key.starts_with(prefix) && key != "eval_time_s";
  return is_evaluation ? "eval/" + key.substr(prefix.size()) : "train/" + key;
}

}  // namespace

Reports::Reports(const config::Train& config, const Beginning& run)
    : run_id_(run.run_id), line_time_s_(Goodput::now()), last_{.time_s = line_time_s_} {
  if (has(config, config::Reporter::prometheus)) {
    exposition_path_ = config.output_dir + "/metrics.prom";
    attempt([&] { write_exposition(); });
  }
  if (!has(config, config::Reporter::tensorboard)) return;
  attempt([&] {
    events_ = std::make_unique<report::EventFile>(fmt::format("{}/tensorboard/{}", config.output_dir, run.run_id),
                                                  Goodput::now());
    events_->add_text(last_, "configuration", fmt::format("```\n{}\n```", run.resolved_ini));
    std::istringstream lines(run.metrics);
    for (std::string line; std::getline(lines, line);) write_events(line);
    events_->replace_earlier();
  });
}

void Reports::add(const std::string& line) {
  attempt([&] {
    if (events_) write_events(line);
    if (!exposition_path_.empty()) expose(line);
  });
}

void Reports::end() {
  is_running_ = false;
  if (!exposition_path_.empty()) attempt([&] { write_exposition(); });
}

void Reports::write_events(const std::string& line) {
  const auto json = nlohmann::ordered_json::parse(line);
  last_ = {json.at("step").get<std::int64_t>(), json.value("time", last_.time_s)};
  std::vector<report::Scalar> scalars = scalars_of(json);
  for (report::Scalar& scalar : scalars) scalar.tag = event_tag(scalar.tag);
  events_->add(last_, scalars);
}

void Reports::expose(const std::string& line) {
  const auto json = nlohmann::ordered_json::parse(line);
  std::vector<report::Scalar> scalars = scalars_of(json);
  if (json.contains("eval_loss")) {  // told with the next line of a step
    evaluation_ = std::move(scalars);
    std::erase_if(evaluation_, [](const report::Scalar& scalar) { return !scalar.tag.starts_with("eval_"); });
    evaluation_.push_back({"eval_step", json.at("step").get<double>()});
    return;
  }
  step_ = std::move(scalars);
  step_.insert(step_.begin(), {"step", json.at("step").get<double>()});
  line_time_s_ = json.value("time", Goodput::now());
  write_exposition();
}

void Reports::write_exposition() const {
  std::vector<report::Scalar> scalars = {{"running", is_running_ ? 1.0 : 0.0},
                                         {"last_line_timestamp_seconds", line_time_s_}};
  scalars.insert(scalars.end(), step_.begin(), step_.end());
  scalars.insert(scalars.end(), evaluation_.begin(), evaluation_.end());
  io::write_file_atomically(exposition_path_, report::text_exposition(run_id_, scalars));
}

template <class Work>
void Reports::attempt(const Work& work) {
  if (has_failed_) return;
  try {
    work();
  } catch (const Error& error) {
    has_failed_ = true;
    log_warning(fmt::format("what train.report_to asks for ends here; metrics.jsonl goes on: {}", error.what()));
  }
}

}  // namespace sft::train
