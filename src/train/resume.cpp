// SPDX-License-Identifier: Apache-2.0
#include "sft/train/resume.hpp"

#include "sft/config/parse.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/train/run_length.hpp"

namespace sft::train {

namespace {

std::string full_name(const config::Difference& difference) { return difference.section + "." + difference.name; }

/// Whether a resumed run needs the key as it was. A model folder may have moved; what is in it is compared by shape.
bool must_stay(const std::string& key) {
  if (key == "model.model_name_or_path" || key == "model.model_revision") return false;
  return key.starts_with("model.") || key.starts_with("lora.") || key == "data.shuffle" || key == "data.seed" ||
         key == "train.seed";
}

[[noreturn]] void refuse(const std::string& what, const std::string& now, const std::string& then,
                         const std::string& folder, const std::string& what_to_do) {
  throw_config_error(what + " is " + now + ", but " + folder + " was written with " + then,
                     "a resumed run must go on as it was begun",
                     what_to_do + ", or set checkpoint.resume_from_checkpoint = none and another train.output_dir");
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
  const config::RowOrder order = name_of(row_order(config.data, num_rows)), order_then = saved.position.row_order;
  if (order != order_then) {
    refuse("data.row_order", config::write(order), config::write(order_then), folder,
           "set data.row_order = " + config::write(order_then));
  }
  const auto refuse_number = [&](const std::string& what, std::int64_t now, std::int64_t before,
                                 const std::string& what_to_do) {
    if (now != before) refuse(what, std::to_string(now), std::to_string(before), folder, what_to_do);
  };
  refuse_number("the effective batch in rows", config.effective_batch_rows(), then.effective_batch_rows(),
                "set train.gradient_accumulation_steps or train.per_device_train_batch_size to make it " +
                    std::to_string(then.effective_batch_rows()));
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

std::vector<std::string> changes_on_resume(const config::Config& config, const std::string& folder,
                                           const checkpoint::Header& saved) {
  std::vector<std::string> changes;
  for (const config::Difference& difference :
       config::differences(config::parse(saved.config_ini, {}, folder), config)) {
    if (difference.section != "optimizer" && full_name(difference) != "train.precision") continue;
    changes.push_back(full_name(difference) + " is " + difference.now + " from here on; it was " + difference.before +
                      " when " + folder + " was written");
  }
  return changes;
}

}  // namespace sft::train
