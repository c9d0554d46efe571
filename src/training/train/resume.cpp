// SPDX-License-Identifier: Apache-2.0
#include "sft/train/resume.hpp"

#include <fmt/core.h>
#include <array>
#include <cstdio>

#include "sft/config/parse.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"
#include "sft/optim/schedule.hpp"
#include "sft/rank/run_length.hpp"

namespace sft::train {

namespace {

std::string full_name(const config::Difference& difference) { return difference.section + "." + difference.name; }

/// Whether a resumed run needs the key as it was. A model folder may have moved; what is in it is compared by shape.
bool must_stay(const std::string& key) {
  if (key == "model.model_name_or_path" || key == "model.model_revision") return false;
  if (key == "model.pad_token_id") return false;  // which checkpoints of earlier versions do not say
  return key.starts_with("model.") || key.starts_with("lora.") || key == "data.shuffle" || key == "data.seed" ||
         key == "train.seed" || key == "optimizer.optim";
}

[[noreturn]] void refuse(const std::string& what, const std::string& now, const std::string& then,
                         const std::string& folder, const std::string& what_to_do) {
  throw_config_error(what + " is " + now + ", but " + folder + " was written with " + then,
                     "a resumed run must go on as it was begun",
                     what_to_do + ", or set checkpoint.resume_from_checkpoint = none and another train.output_dir");
}

std::string rate_text(double rate) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.3g", rate);
  return text.data();
}

/// Whether the two have the same rates before the 0-based `step`.
bool is_alike_before(std::int64_t step, const optim::Schedule& a, const optim::Schedule& b) {
  for (std::int64_t i = 0; i < step; ++i) {
    if (a.rate(i) != b.rate(i)) return false;
  }
  return true;
}

/// What another length of the run makes of the learning rate; empty where the steps so far had the rates of a
/// run of this length.
std::string bend_of_schedule(const config::Config& now, const config::Config& then, const std::string& folder,
                             const checkpoint::Position& position) {
  const std::int64_t step = position.step;
  const std::int64_t batch_then = then.effective_batch_rows(), num_rows = position.num_rows,
                     num_now = rank::num_steps(now, num_rows, rank::origin_at(now, position, batch_then)),
                     num_then = rank::num_steps(then, num_rows, rank::origin_at(then, position, batch_then));
  if (num_now == num_then || num_now <= step) return "";
  const optim::Schedule schedule(now.optimizer, num_now), schedule_then(then.optimizer, num_then);
  if (is_alike_before(step, schedule, optim::Schedule(now.optimizer, num_then))) return "";
  return "the run has " + std::to_string(num_now) + " steps now; it had " + std::to_string(num_then) + " when " +
         folder + " was written: the learning rate of step " + std::to_string(step + 1) + " is " +
         rate_text(schedule.rate(step)) + ", not " + rate_text(schedule_then.rate(step)) + ", and comes to " +
         rate_text(schedule.rate(num_now)) + " after step " + std::to_string(num_now) +
         ", which is neither the schedule that was begun nor that of a run of this length";
}

}  // namespace

void check_resume(const config::Config& config, std::int64_t num_rows, std::int64_t max_length,
                  const std::string& folder, const checkpoint::Header& saved) {
  const config::Config then = config::parse(saved.config_ini, {}, folder);
  for (const config::Difference& difference : config::differences(then, config)) {
    const std::string key = full_name(difference);
    if (must_stay(key))
      refuse(key, difference.now, difference.before, folder, "set " + key + " = " + difference.before);
  }
  const config::RowOrder order = rank::name_of(rank::row_order(config.data, num_rows)),
                         order_then = saved.position.row_order;
  if (order != order_then) {
    refuse("data.row_order", config::write(order), config::write(order_then), folder,
           "set data.row_order = " + config::write(order_then));
  }
  const auto refuse_number = [&](const std::string& what, std::int64_t now, std::int64_t before,
                                 const std::string& what_to_do) {
    if (now != before) refuse(what, std::to_string(now), std::to_string(before), folder, what_to_do);
  };
  refuse_number("the number of rows of data.train_files", num_rows, saved.position.num_rows,
                "give data.train_files the shards of that run");
  refuse_number("max_length of data.train_files", max_length, saved.position.max_length,
                "give data.train_files the shards of that run");
}

void check_resume_data(const std::string& fingerprint, const std::string& folder, const checkpoint::Header& saved) {
  const std::string& before = saved.position.data_fingerprint;
  if (before.empty() || before == fingerprint) return;
  refuse("the content or order of data.train_files, by its fingerprint,", fingerprint, before, folder,
         "give data.train_files the shards of that run in the same order (a glob sorts them by name)");
}

std::vector<std::string> check_resume_weights(const std::string& fingerprint, const std::string& origin,
                                              const std::string& folder, const checkpoint::Header& saved) {
  const std::string& before = saved.position.frozen_fingerprint;
  if (before.empty()) {
    return {folder +
            " does not say which frozen weights its adapters were trained beside (an earlier version wrote "
            "it): nothing checks that those in " +
            origin + " are the same"};
  }
  if (before == fingerprint) return {};
  const std::string& origin_before = saved.position.frozen_origin;
  const std::string then = before == random_weights ? "random, of model.init_seed" : "in " + origin_before;
  throw_data_error("the frozen weights in " + origin + " are not those that " + folder + " was trained beside",
                   "their fingerprint is " + fingerprint + ", then it was " + before + "; they were " + then +
                       (origin == origin_before ? ", which has changed since" : ""),
                   "set model.model_name_or_path to those weights, for a model of the hub cache also "
                   "model.model_revision to their commit, because a branch such as main moves; or set "
                   "checkpoint.resume_from_checkpoint = none and another train.output_dir");
}

rows::StepOrigin origin_of_resume(const config::Config& config, const std::string& folder,
                                  const checkpoint::Header& saved) {
  const config::Config then = config::parse(saved.config_ini, {}, folder);
  return rank::origin_at(config, saved.position, then.effective_batch_rows());
}

std::vector<std::string> changes_on_resume(const config::Config& config, const std::string& folder,
                                           const checkpoint::Header& saved) {
  std::vector<std::string> changes;
  const config::Config then = config::parse(saved.config_ini, {}, folder);
  for (const config::Difference& difference : config::differences(then, config)) {
    const std::string name = full_name(difference);
    if (difference.section != "optimizer" && name != "train.precision" && name != "train.fp8") continue;
    changes.push_back(name + " is " + difference.now + " from here on; it was " + difference.before + " when " +
                      folder + " was written");
  }
  const std::int64_t batch_now = config.effective_batch_rows(), batch_then = then.effective_batch_rows(),
                     num_rows = saved.position.num_rows, rows = saved.position.rows_consumed;
  if (batch_now != batch_then) {
    changes.push_back(fmt::format(
        "the effective batch is {} from here on; it was {} when {} was written: step {} begins with row {} of epoch {}",
        plural(batch_now, "row"), batch_then, folder, saved.position.step + 1, rows % num_rows + 1,
        rows / num_rows + 1));
  }
  if (const std::string bend = bend_of_schedule(config, then, folder, saved.position); !bend.empty()) {
    changes.push_back(bend);
  }
  return changes;
}

}  // namespace sft::train
