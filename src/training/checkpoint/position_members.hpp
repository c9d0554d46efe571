// SPDX-License-Identifier: Apache-2.0
#pragma once
// The one list of what a Position holds: by its names it is in attributes of checkpoint.h5 and in messages to ranks.

#include "sft/checkpoint/checkpoint.hpp"

namespace sft::checkpoint {

/// Whether every checkpoint has a member, or those of later versions than 0.1.0 alone.
enum class Presence { always, later };

/// Calls visit(name, member, presence) for every member of `p`, a Position or a const one.
template <class AnyPosition, class Visit>
void for_each_member(AnyPosition& p, const Visit& visit) {
  visit("step", p.step, Presence::always);
  visit("epoch", p.epoch, Presence::always);
  visit("rows_consumed", p.rows_consumed, Presence::always);
  visit("row_order", p.row_order, Presence::later);
  visit("num_tokens", p.num_tokens, Presence::always);
  visit("num_target_tokens", p.num_target_tokens, Presence::later);
  visit("num_rows", p.num_rows, Presence::always);
  visit("max_length", p.max_length, Presence::always);
  visit("data_fingerprint", p.data_fingerprint, Presence::later);
  visit("eos_token", p.markup.eos_token, Presence::later);
  visit("pad_token", p.markup.pad_token, Presence::later);
  visit("chat_template", p.markup.chat_template, Presence::later);
  visit("log_num_steps", p.since_log.num_steps, Presence::later);
  visit("log_loss", p.since_log.loss, Presence::later);
  visit("log_mean_token_accuracy", p.since_log.mean_token_accuracy, Presence::later);
  visit("log_entropy", p.since_log.entropy, Presence::later);
  visit("evaluated_step", p.evaluated_step, Presence::later);
  visit("schedule", p.schedule, Presence::later);
  visit("run_id", p.lineage.run_id, Presence::later);
  visit("ancestors", p.lineage.ancestors, Presence::later);
  visit("frozen_fingerprint", p.frozen_fingerprint, Presence::later);
  visit("frozen_origin", p.frozen_origin, Presence::later);
  visit("date", p.date, Presence::always);
  visit("best_metric", p.decisions.best_metric, Presence::later);
  visit("best_step", p.decisions.best_step, Presence::later);
  visit("best_checkpoint", p.decisions.best_checkpoint, Presence::later);
  visit("num_worse_evaluations", p.decisions.num_worse_evaluations, Presence::later);
  visit("num_skipped_steps", p.decisions.num_skipped_steps, Presence::later);
  visit("num_skipped_in_a_row", p.decisions.num_skipped_in_a_row, Presence::later);
  visit("num_high_losses", p.decisions.num_high_losses, Presence::later);
  visit("is_model_only", p.is_model_only, Presence::later);
  visit("time_use", p.time_use, Presence::later);
  visit("writers", p.writers, Presence::later);
}

}  // namespace sft::checkpoint
