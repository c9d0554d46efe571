// SPDX-License-Identifier: Apache-2.0
#include <nlohmann/json.hpp>

#include "header.hpp"

namespace sft::checkpoint {

namespace {

/// Calls visit(name, member) for all but the lists and what may be missing.
template <class Position, class Visit>
void for_each_member(Position& p, const Visit& visit) {
  visit("step", p.step);
  visit("epoch", p.epoch);
  visit("rows_consumed", p.rows_consumed);
  visit("row_order", p.row_order);
  visit("num_tokens", p.num_tokens);
  visit("num_target_tokens", p.num_target_tokens);
  visit("num_rows", p.num_rows);
  visit("max_length", p.max_length);
  visit("data_fingerprint", p.data_fingerprint);
  visit("log_num_steps", p.since_log.num_steps);
  visit("log_loss", p.since_log.loss);
  visit("log_mean_token_accuracy", p.since_log.mean_token_accuracy);
  visit("log_entropy", p.since_log.entropy);
  visit("evaluated_step", p.evaluated_step);
  visit("schedule", p.schedule);
  visit("run_id", p.lineage.run_id);
  visit("frozen_fingerprint", p.frozen_fingerprint);
  visit("frozen_origin", p.frozen_origin);
  visit("date", p.date);
  visit("best_step", p.decisions.best_step);
  visit("best_checkpoint", p.decisions.best_checkpoint);
  visit("num_worse_evaluations", p.decisions.num_worse_evaluations);
  visit("num_skipped_steps", p.decisions.num_skipped_steps);
  visit("num_skipped_in_a_row", p.decisions.num_skipped_in_a_row);
  visit("num_high_losses", p.decisions.num_high_losses);
  visit("is_model_only", p.is_model_only);
  visit("time_use", p.time_use);
}

}  // namespace

std::string to_json_text(const Position& position) {
  nlohmann::json json;
  for_each_member(position, [&](const char* name, const auto& value) { json[name] = value; });
  json["ancestors"] = to_text(position.lineage.ancestors);
  json["writers"] = text_of(position.writers);
  if (position.decisions.best_metric) json["best_metric"] = *position.decisions.best_metric;
  return json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

Position position_of_json(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  Position position;
  for_each_member(position, [&](const char* name, auto& value) { json.at(name).get_to(value); });
  position.lineage.ancestors = parse_ancestors(json.at("ancestors").get<std::string>(), "a message");
  position.writers = parse_writers(json.at("writers").get<std::string>(), "a message");
  if (json.contains("best_metric")) position.decisions.best_metric = json.at("best_metric").get<double>();
  return position;
}

}  // namespace sft::checkpoint
