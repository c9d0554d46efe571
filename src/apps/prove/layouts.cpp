// SPDX-License-Identifier: Apache-2.0
#include "layouts.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <limits>
#include <nlohmann/json.hpp>

#include "apps/common/child_process.hpp"
#include "apps/common/find_script.hpp"
#include "apps/common/input_file.hpp"
#include "apps/common/start_model.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/config/parse.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/io/files.hpp"
#include "sft/model/modules.hpp"

namespace sft::apps {

namespace {

namespace fs = std::filesystem;

/// Leaves of a run what sft-prove compares, each step of it logged.
config::Config trained_only(config::Config config, std::int64_t steps) {
  config::Train& train = config.train;
  train.max_steps = steps;
  train.logging_steps = 1;
  train.report_to = {};
  train.eval_strategy = config::EvalStrategy::no;
  train.eval_on_start = false;
  train.load_best_model_at_end = false;
  train.metric_for_best_model = std::nullopt;
  train.greater_is_better = std::nullopt;
  train.early_stopping_patience = 0;
  train.profile_steps = {};
  config.data.eval_files = {};
  config.optimizer.lr_scheduler_type = config::Scheduler::constant;
  config.optimizer.lr_scheduler_kwargs = {};
  config.optimizer.warmup_steps = config.optimizer.warmup_ratio = 0.0;
  config.checkpoint.save_strategy = config::SaveStrategy::no;
  config.checkpoint.save_only_model = false;
  config.checkpoint.save_hub_model = config::HubModel::never;
  config.checkpoint.resume_from_checkpoint = "none";
  config.checkpoint.async = false;
  return config;
}

/// Keys that say where and in what memory a run computes, and no more.
bool is_of_layout(const config::Difference& key) {
  static const std::vector<std::string> of_train{"per_device_train_batch_size",
                                                 "gradient_accumulation_steps",
                                                 "activation_checkpointing",
                                                 "activation_offload",
                                                 "mlp_tile_tokens",
                                                 "attention_head_groups",
                                                 "offload_optimizer",
                                                 "offload_parameters",
                                                 "offload_folder",
                                                 "output_dir"};
  if (key.section == "parallel" || key.section == "device" || key.section == "checkpoint") return true;
  return key.section == "train" && std::ranges::find(of_train, key.name) != of_train.end();
}

/// Whether a step depends on its micro-batches: the loss that balances experts is one of each, over all ranks.
bool has_auxiliary_loss(const config::Config& config) {
  return config.model.num_experts > 0 && config.model.router_aux_loss_coef > 0.0;
}

/// sft-run, beside this program.
std::string launcher_program() {
  std::error_code error;
  const fs::path program = program_folder() / "sft-run";
  if (fs::exists(program, error)) return program.string();
  throw_config_error(fmt::format("there is no program {}", program.string()), "it starts the ranks",
                     "build or install it");
}

std::string with_number(std::string words, int num_ranks) {
  const std::string place = "{n}";
  for (std::size_t at = 0; (at = words.find(place, at)) != std::string::npos;) {
    words.replace(at, place.size(), fmt::format("{}", num_ranks));
  }
  return words;
}

/// The error lines of a log, without the program's name; else its last line.
std::string words_of_failure(const std::string& log) {
  std::ifstream file(log);
  std::string found, last;
  for (std::string line; std::getline(file, line);) {
    const std::size_t at = line.find("error: ");
    if (at != std::string::npos && found.empty()) found = line.substr(at + std::strlen("error: "));
    if (!line.empty()) last = line;
  }
  return found.empty() ? last : found;
}

[[noreturn]] void fail(const Layout& layout, int status, const std::string& log) {
  const std::array known{ExitStatus::configuration, ExitStatus::data, ExitStatus::numerical, ExitStatus::stopped,
                         ExitStatus::hang};
  const auto found = std::ranges::find(known, static_cast<ExitStatus>(status));
  throw Error(found == known.end() ? ExitStatus::failure : *found,
              fmt::format("{} on {} ranks ended with status {}: {}", layout.name, layout.num_ranks, status,
                          words_of_failure(log)));
}

std::vector<StepNumbers> read_steps(const std::string& path, std::int64_t num_steps) {
  std::vector<StepNumbers> steps;
  std::ifstream file(path);
  for (std::string text; std::getline(file, text);) {
    const nlohmann::json line = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
    if (!line.contains("step_loss")) continue;
    const auto number = [&](const char* key) {
      return line[key].is_number() ? line[key].get<double>() : std::numeric_limits<double>::quiet_NaN();
    };
    steps.push_back({.num_tokens = line["step_num_tokens"],
                     .num_target_tokens = line["step_num_target_tokens"],
                     .loss = number("step_loss"),
                     .grad_norm = number("grad_norm")});
  }
  if (std::ssize(steps) == num_steps) return steps;
  throw_data_error(fmt::format("{} has {} steps, not {}", path, steps.size(), num_steps),
                   "each step has its line there", "run it again with --keep and look at the log beside it");
}

}  // namespace

Layout read_layout(const std::string& path, const ProveOptions& options) {
  std::vector<std::string> warnings;
  const config::Config given = parse_with_model(read_input_file(path), options.overrides, path, warnings);
  for (const std::string& warning : warnings) log_warning(warning);
  if (given.train.fp8 != config::Fp8::none) {
    throw_config_error(
        fmt::format("`train.fp8 = {}` leaves nothing to prove", config::write(given.train.fp8)),
        "a number that lies between two floats of 8 bits moves by a sixteenth of itself: layouts that are "
        "right come as far apart as some that are wrong",
        "add --train.fp8 none");
  }
  const bool is_open = given.parallel.dp_shard_size == 0 && options.num_ranks > 0;
  const int num_ranks = is_open ? options.num_ranks : num_ranks_of(given.parallel);
  return {path, config::validate(trained_only(given, options.steps), num_ranks, model::check_modules), num_ranks};
}

Layout on_one_rank(const Layout& layout) {
  const std::int64_t rows = layout.config->effective_batch_rows();
  config::Config config = *layout.config;
  config.parallel = {};
  config.parallel.dp_shard_size = 1;
  config::Train& train = config.train;
  if (has_auxiliary_loss(config)) {
    train.per_device_train_batch_size = rows / train.gradient_accumulation_steps;
  } else {
    train.gradient_accumulation_steps = rows / train.per_device_train_batch_size;
  }
  return {"one rank", config::validate(config, 1), 1};
}

std::vector<std::string> keys_of_other_runs(const Layout& first, const Layout& second) {
  std::vector<std::string> keys;
  for (const config::Difference& key : config::differences(first.config, second.config)) {
    if (!is_of_layout(key)) keys.push_back(fmt::format("{}.{}: {}, {}", key.section, key.name, key.before, key.now));
  }
  const std::int64_t rows = first.config->effective_batch_rows(), other_rows = second.config->effective_batch_rows();
  if (rows != other_rows) keys.push_back(fmt::format("rows of a step: {}, {}", rows, other_rows));
  const std::int64_t parts = first.config->train.gradient_accumulation_steps,
                     other_parts = second.config->train.gradient_accumulation_steps;
  if (has_auxiliary_loss(first.config) && parts != other_parts) {
    keys.push_back(fmt::format(
        "train.gradient_accumulation_steps: {}, {} (experts have an auxiliary loss of each part)", parts, other_parts));
  }
  return keys;
}

RunNumbers train_layout(const Layout& layout, std::int64_t num_steps, const std::string& folder,
                        const std::string& label, const std::string& launcher) {
  config::Config config = *layout.config;
  config.train.max_steps = num_steps;
  config.train.output_dir = fmt::format("{}/{}", folder, label);
  const std::string ini = config.train.output_dir + ".ini", log = config.train.output_dir + ".log";
  io::write_file_atomically(ini, config::to_ini(config));
  std::vector<std::string> words{launcher_program()};
  if (launcher.empty()) {
    words.insert(words.end(), {"-n", fmt::format("{}", layout.num_ranks)});
  } else {
    words.insert(words.end(), {"--launcher", with_number(launcher, layout.num_ranks)});
  }
  words.push_back(ini);
  if (const int status = run_and_wait(words, log, "see that it can be executed"); status != 0)
    fail(layout, status, log);
  RunNumbers numbers;
  if (num_steps > 0) numbers.steps = read_steps(config.train.output_dir + "/metrics.jsonl", num_steps);
  numbers.checkpoint = checkpoint::path_of(config.train.output_dir, num_steps);
  return numbers;
}

}  // namespace sft::apps
