// SPDX-License-Identifier: Apache-2.0
#include "data.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <set>

#include "apps/common/find_script.hpp"
#include "apps/common/prepare_options.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/hub/folder.hpp"

namespace sft::apps {

namespace {

/// Options of sft-prepare: those that were given, and TRL's defaults where they change rows.
std::map<std::string, std::string> preparation_of(const launch::Request& request) {
  std::map<std::string, std::string> options = request.preparation;
  options.emplace("packing", "false");
  if (!request.model.empty() && !options.contains("tokenizer")) {
    options["model_name_or_path"] = request.model;
    if (request.model_revision != "main") options["model_revision"] = request.model_revision;
  }
  return options;
}

/// Whether rows to evaluate on are packed: as those of training unless eval_packing says it.
std::string packing_of_evaluation(const launch::Request& request, const std::map<std::string, std::string>& options) {
  if (!request.eval_packing) return options.at("packing");
  return *request.eval_packing ? "true" : "false";
}

/// A value of train_files or eval_files: the files of one folder.
std::string files_in(const std::string& folder, const char* pattern) {
  return config::write(std::vector<std::string>{fmt::format("{}/{}", folder, pattern)});
}

/// Plans one call of sft-prepare; the shards of it are those of `pattern`.
std::string add_preparation(const launch::Request& request, const launch::InputFiles& files,
                            std::map<std::string, std::string> options, const char* pattern, LaunchData& plan) {
  const std::string folder =
      options.contains("model_name_or_path") ? hub::find_model_folder(request.model, request.model_revision) : "";
  const std::string program = (program_folder() / "sft-prepare").string();
  if (!folder.empty() && !request.known_pad_token.empty() && launch::has_token(folder, request.known_pad_token)) {
    options.emplace("pad_token", request.known_pad_token);
  }
  plan.preparations.push_back(launch::plan_preparation(files, folder, options, program, request.prepared_dir));
  return files_in(plan.preparations.back().folder, pattern);
}

/// Adds a line to the plan that lists the files; returns `inputs`.
launch::InputFiles noted(launch::InputFiles inputs, const std::string& purpose, LaunchData& plan) {
  if (inputs.files.empty()) return inputs;
  std::string note = fmt::format("{} on {}", purpose, launch::list_of(inputs.files));
  if (!inputs.left_out.empty()) note += fmt::format("; left out {}", launch::list_of(inputs.left_out));
  plan.files_read.push_back(note);
  return inputs;
}

/// Files to evaluate on: those that are named, else the split for it of the data sets that are trained on.
launch::InputFiles eval_files_of(const launch::Request& request) {
  if (!request.eval.empty()) return launch::find_inputs(request.eval, request.max_samples);
  std::vector<launch::Dataset> datasets = request.train;
  const std::string split = request.test_split.value_or("test");
  for (launch::Dataset& dataset : datasets) {
    dataset.split = split;
    dataset.slice.clear();
    dataset.fraction.reset();
    launch::take_slice(dataset);
  }
  const launch::ChoiceOptions options{.split = "--dataset_test_split"};
  const bool is_optional = split == "test";  // the default, which a file of a command may say, too
  return launch::find_inputs(datasets, std::nullopt, options, is_optional);
}

}  // namespace

void check_preparation(launch::Request& request) {
  std::map<std::string, std::string> options = preparation_of(request);
  const std::string packing_of_training = options.at("packing");
  const bool is_split = options.contains("eval_split") && !config::is_none(options.at("eval_split"));
  std::set<std::string> packings{packing_of_training, packing_of_evaluation(request, options)};
  if (is_split && packings.size() > 1) {
    request.refused.push_back(
        Error(ExitStatus::configuration,
              fmt::format("sft-launch does not take eval_packing = {} with eval_split and packing = {}",
                          packing_of_evaluation(request, options), packing_of_training),
              "rows that are held back are packed with the others",
              "leave eval_packing out, or name the rows to evaluate on with --eval_files")
            .what());
    packings = {packing_of_training};
  }
  const auto is_taken = [&](const std::vector<std::string>& words) {
    try {
      static_cast<void>(read_prepare_options(words));
    } catch (const Error& error) {
      request.refused.emplace_back(error.what());
      return false;
    }
    return true;
  };
  bool are_taken = true;  // each by itself, so that all that cannot be are named
  for (const auto& [name, value] : options) {
    are_taken = is_taken({"--input=-", "--output=-", fmt::format("--{}={}", name, value)}) && are_taken;
  }
  if (!are_taken) return;
  for (const std::string& packing : packings) {
    options["packing"] = packing;
    std::vector<std::string> words{"--input=-", "--output=-"};
    for (const auto& [name, value] : options) words.push_back(fmt::format("--{}={}", name, value));
    is_taken(words);
  }
}

std::vector<config::PlacedOption> plan_data(const launch::Request& request, bool has_share_of_steps, LaunchData& plan) {
  std::vector<config::PlacedOption> settings;
  const auto set = [&](const char* name, const std::string& value) {
    settings.push_back({{name, value}, "by sft-launch"});
  };
  if (request.train.empty()) {
    if (request.gives("train_files")) return settings;
    throw_config_error("no data is given", "there is neither --dataset_name nor --data_files",
                       "give a file of JSON lines, a folder, or a name in the hub cache: --dataset_name DATA");
  }
  std::map<std::string, std::string> options = preparation_of(request);
  set("data.train_files",
      add_preparation(request, noted(launch::find_inputs(request.train, request.max_samples), "trains", plan), options,
                      "train-*.h5", plan));
  std::string eval_files;
  if (options.contains("eval_split")) {
    eval_files = files_in(plan.preparations.front().folder, "eval-*.h5");
  } else if (const launch::InputFiles inputs = noted(eval_files_of(request), "evaluates", plan);
             !inputs.files.empty()) {
    options["packing"] = packing_of_evaluation(request, options);
    eval_files = add_preparation(request, inputs, options, "train-*.h5", plan);
  }
  if (eval_files.empty()) return settings;
  set("data.eval_files", eval_files);
  const bool says_when = has_share_of_steps || request.gives("eval_strategy") || request.gives("evaluation_strategy") ||
                         request.gives("eval_steps");
  if (!says_when) set("train.eval_steps", "0");
  return settings;
}

}  // namespace sft::apps
