// SPDX-License-Identifier: Apache-2.0
#include "sft/launch/request.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>

#include "launch/named_datasets.hpp"
#include "launch/request_parts.hpp"
#include "launch/yaml.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"

namespace sft::launch {

namespace {

using config::PlacedOption;

bool are_packed_files(const std::string& value) { return value.find(".h5") != std::string::npos; }

/// Names that say how processes find each other, which is the work of MPI.
bool is_needless(const std::string& name) {
  static const std::set<std::string> needless{"main_process_ip",
                                              "main_process_port",
                                              "same_network",
                                              "rdzv_conf",
                                              "rdzv_backend",
                                              "monitor_interval",
                                              "role",
                                              "max_restarts",  // sft-run's --restarts
                                              "single_process",
                                              "num_machines",
                                              "deepspeed_multinode_launcher",
                                              "main_training_function"};
  return needless.contains(name);
}

std::string note_on_16_bits(const std::string& place) {
  return fmt::format(
      "zero3_save_16bit_model {}: a finished run leaves the whole model in any case, in the dtype of its "
      "weights; `sft-convert CHECKPOINT FOLDER --dtype bfloat16` writes one of 16 bits",
      place);
}

/// How processes find and watch each other, otherwise than Accelerate does it unasked.
bool asks_for_watch(const PlacedOption& setting) {
  static const std::set<std::string> names{"rdzv_backend", "rdzv_conf", "monitor_interval"};
  return names.contains(setting.option.name) && !config::is_none(value_of(setting)) && value_of(setting) != "static";
}

std::string note_on_watch(const PlacedOption& setting) {
  return fmt::format("`{}` without effect: ranks find and watch each other through MPI", setting.option.name);
}

/// A line on a setting that asks for something of the launcher, of ranks that somebody else has started; empty: none.
std::string note_on_start(const PlacedOption& setting) {
  const std::string &name = setting.option.name, value = value_of(setting);
  if (config::is_none(value) || value == "0") return "";
  if (asks_for_watch(setting)) return note_on_watch(setting);
  if (name == "max_restarts") {
    return fmt::format(
        "`max_restarts = {}` {} without effect: sft does not start ranks; `sft-run --restarts {}` starts "
        "them again",
        value, setting.place, value);
  }
  if (name == "num_machines" && value != "1") {
    return fmt::format("`num_machines = {}` {} without effect: mpirun or srun has chosen where ranks start", value,
                       setting.place);
  }
  return "";
}

/// Sorts the settings of one source.
class Sorter {
 public:
  Sorter(Request& request, const std::vector<PlacedOption>& source, const std::vector<std::string>& options)
      : request_(request), source_(source), options_(options) {}

  void sort() {
    request_.training.emplace_back();
    if (has("dataset_name") || has("data_files") || has("datasets")) request_.train.clear();
    refuse_two_ways_to_data();
    for (const PlacedOption& setting : source_) {
      if (!is_launch(setting) && !take_hub(request_, setting) && !is_data(setting) && !is_shared(setting) &&
          !is_preparation(setting))
        train(setting);
    }
    if (has("single_process")) request_.is_single_process = true;
    if (skips_preparation_) leave_rows_alone();
  }

 private:
  [[nodiscard]] bool has(const std::string& name) const {
    return std::ranges::any_of(source_, [&](const PlacedOption& other) {
      return other.option.name == name && !config::is_null(value_of(other));
    });
  }

  void refuse_two_ways_to_data() {
    for (const PlacedOption& setting : source_) {
      if (setting.option.name != "datasets" || !has("datasets")) continue;
      for (const char* other : {"dataset_name", "data_files"}) {
        if (!has(other)) continue;
        request_.refused.push_back(refusal(fmt::format("`datasets` {} and `{}` are given", setting.place, other),
                                           "both say what is trained on", "leave one of the two out"));
      }
    }
  }

  void train(const PlacedOption& setting) {
    const std::string size = size_named(setting.option.name);
    if (!size.empty() && value_of(setting) == "auto") {
      request_.automatic.insert(size);
      for (std::vector<PlacedOption>& source : request_.training) {  // what it replaces
        std::erase_if(source, [&](const PlacedOption& other) { return size_named(other.option.name) == size; });
      }
      if (!is_resolved_by_sft(size)) return;
    } else if (!size.empty()) {
      request_.automatic.erase(size);
    }
    request_.training.back().push_back(setting);
  }
  void train(const PlacedOption& setting, const std::string& name) {
    train({{name, setting.option.value}, setting.place});
  }

  void refuse(const PlacedOption& setting, const char* why, const std::string& what_to_do) {
    refuse_setting(request_, setting, why, what_to_do);
  }

  void read_count(const PlacedOption& setting, std::optional<int>& count) {
    const std::string value = value_of(setting);
    if (config::is_none(value)) return;
    int number = 0;
    try {
      config::read(value, number);
    } catch (const std::invalid_argument&) {
      number = 0;
    }
    if (number < 1) return refuse(setting, "it is a whole number from 1", "correct it, or leave it out");
    count = number;
  }

  /// How processes start, which is mpirun's or srun's work here.
  bool is_launch(const PlacedOption& setting) {
    const std::string& name = setting.option.name;
    if (name == "num_processes") {
      read_count(setting, request_.num_processes);
      request_.is_single_process = false;
    } else if (name == "num_machines") {
      read_count(setting, request_.num_machines);
    } else if (name == "num_cpu_threads_per_process") {
      read_count(setting, request_.threads_per_process);
    } else if (name == "train_batch_size") {
      read_count(setting, request_.train_batch_size);
    } else if (name == "machine_rank") {
      if (value_of(setting) != "0") {
        refuse(setting, "one command starts the ranks of all machines", "start it on the machine of rank 0 alone");
      }
    } else if (name == "max_restarts") {
      if (value_of(setting) != "0") read_count(setting, request_.max_restarts);
    } else if (name == "rdzv_backend" || name == "rdzv_conf" || name == "monitor_interval") {
      if (asks_for_watch(setting)) request_.notes.push_back(note_on_watch(setting));
    } else if (name == "launcher") {
      request_.launcher = value_of(setting);
    } else if (name == "env") {
      add_environment(setting);
    } else if (name == "zero3_save_16bit_model") {
      read_truth(request_, setting, [&](bool is_of_16_bits) {
        if (is_of_16_bits) request_.notes.push_back(note_on_16_bits(setting.place));
      });
    } else if (name == "gpu_ids") {
      choose_gpus(setting);
    } else if (name == "hostfile" || name == "deepspeed_hostfile" || name == "mpirun_hostfile") {
      if (!config::is_none(value_of(setting))) request_.hostfile = value_of(setting);
    } else {
      return is_needless(name);
    }
    return true;
  }

  /// Numbers or UUIDs, as CUDA_VISIBLE_DEVICES has them.
  void choose_gpus(const PlacedOption& setting) {
    std::vector<std::string> ids;
    config::read(value_of(setting), ids);
    if (config::is_none(value_of(setting)) || value_of(setting) == "all") return;
    const bool are_ids = std::ranges::all_of(ids, [](const std::string& id) {
      return id.starts_with("GPU-") || id.starts_with("MIG-") ||
             id.find_first_not_of("0123456789") == std::string::npos;
    });
    if (!are_ids) return refuse(setting, "it names GPUs by their numbers", "write e.g. 0,1, or all");
    request_.environment.emplace_back("CUDA_VISIBLE_DEVICES", fmt::format("{}", fmt::join(ids, ",")));
  }

  /// TRL's `env`: a map of variables, as JSON.
  void add_environment(const PlacedOption& setting) {
    const auto map = nlohmann::json::parse(value_of(setting), nullptr, false);
    if (config::is_none(value_of(setting))) return;
    if (!map.is_object())
      return refuse(setting, "it is a map of variables", "write `env:` and a line `NAME: VALUE` each");
    for (const auto& [name, value] : map.items()) {
      request_.environment.emplace_back(name, value.is_string() ? value.get<std::string>() : value.dump());
    }
  }

  Dataset& only_dataset() {
    if (request_.train.empty()) request_.train.emplace_back();
    return request_.train.front();
  }

  /// Columns of the data sets, which sft-prepare reads in one way.
  void take_columns(const PlacedOption& setting) {
    if (request_.train.empty()) return;
    const std::vector<std::string>& columns = request_.train.front().columns;
    const bool are_alike =
        std::ranges::all_of(request_.train, [&](const Dataset& dataset) { return dataset.columns == columns; });
    if (!are_alike) {
      request_.refused.push_back(
          refusal(fmt::format("data sets of `{}` {} have other columns", setting.option.name, setting.place),
                  "sft-prepare reads all of its inputs in one way", "write the same columns for each of them"));
    } else if (!columns.empty()) {
      request_.preparation["columns"] = fmt::format("{}", fmt::join(columns, ","));
    }
  }

  bool is_data(const PlacedOption& setting) {
    const std::string& name = setting.option.name;
    const std::string value = value_of(setting);
    if (config::is_null(value) && names_data({setting})) return true;
    if (name == "datasets") {
      request_.train = datasets_of(setting, request_.refused);
      take_columns(setting);
    } else if (name == "test_datasets" && !config::is_null(value)) {
      request_.eval = datasets_of(setting, request_.refused);
    } else if (name == "dataset_name" || name == "dataset_path" || name == "dataset") {
      only_dataset().name = value;
    } else if (name == "dataset_config" || name == "dataset_config_name") {
      if (!config::is_none(value)) only_dataset().config = value;
    } else if (name == "dataset_train_split" || name == "split") {
      only_dataset().split = config::is_null(value) ? "train" : value;
      take_slice(only_dataset());
    } else if (name == "data_dir") {
      if (!config::is_none(value)) only_dataset().data_dir = value;
    } else if (name == "max_samples") {
      std::optional<int> count;
      read_count(setting, count);
      request_.max_samples = count;
    } else if (name == "known_pad_token") {
      request_.known_pad_token = config::is_null(value) ? "" : value;
    } else if (name == "dataset_test_split") {
      if (!config::is_null(value)) request_.test_split = value;
    } else if (name == "data_files" || name == "train_file" || name == "input") {
      read_data_files(setting, only_dataset().data_files, request_.refused);
    } else if (name == "train_files" && !are_packed_files(value)) {
      read_data_files(setting, only_dataset().data_files, request_.refused);
    } else if ((name == "eval_files" || name == "validation_file" || name == "test_datasets") &&
               config::is_null(value)) {
      request_.eval.clear();
    } else if ((name == "eval_files" || name == "validation_file") && !are_packed_files(value)) {
      request_.eval = {Dataset()};
      read_data_files(setting, request_.eval.front().data_files, request_.refused);
    } else if (name == "prepared_dir") {
      request_.prepared_dir = config::is_null(value) ? "" : value;
    } else {
      return false;
    }
    return true;
  }

  /// What both programs have to know.
  bool is_shared(const PlacedOption& setting) {
    const std::string& name = setting.option.name;
    if (name == "model_name_or_path" || name == "model") {
      request_.model = value_of(setting);
      train(setting, "model_name_or_path");
    } else if (name == "model_revision" || name == "revision") {
      if (!config::is_none(value_of(setting))) {
        request_.model_revision = value_of(setting);
        train(setting, "model_revision");
      }
    } else if (name == "seed") {
      request_.preparation["seed"] = value_of(setting);
      train(setting, "train.seed");
      if (!has("data_seed")) train(setting, "data.seed");
    } else {
      return false;
    }
    return true;
  }

  [[nodiscard]] bool is_option_of_prepare(const std::string& name) const {
    return name != "json" && name != "output" && name != "split" && name != "dataset_config" &&
           std::ranges::find(options_, name) != options_.end();
  }

  /// Options of sft-prepare, and names that mean one. Of names that neither program has, sft's answer counts.
  bool is_preparation(const PlacedOption& setting) {
    static const std::set<std::string> foreign{"max_seq_length",         "model_max_length",  "tokenizer_name",
                                               "tokenizer_name_or_path", "strategy",          "test_split_size",
                                               "dataset_batch_size",     "dataset_streaming", "streaming",
                                               "padding_free",           "num_of_sequences"};
    const std::string& name = setting.option.name;
    if (is_option_of_prepare(name)) {
      if (config::is_null(value_of(setting))) {  // TRL's default; of max_length it is a value of its own
        request_.preparation.erase(name);
        if (name == "max_length") request_.preparation[name] = "none";
        return true;
      }
      const bool is_list = name == "rename" || name == "ignore_fields";
      const bool goes_on = !seen_.insert(name).second && is_list;
      std::string& value = request_.preparation[name];
      value = goes_on ? fmt::format("{},{}", value, value_of(setting)) : value_of(setting);
      return true;
    }
    if (name.starts_with("no_") && !setting.option.value && is_option_of_prepare(name.substr(3))) {
      request_.preparation[name.substr(3)] = "false";
      return true;
    }
    if (name == "eval_packing") {
      read_truth(request_, setting, [&](bool is_packed) { request_.eval_packing = is_packed; });
      return true;
    }
    if (name == "dataset_kwargs") {
      read_dataset_kwargs(setting);
      return true;
    }
    if (!foreign.contains(name)) return false;
    try {
      const auto meant = config::meaning_to_prepare(setting.option, options_);
      if (meant) {
        request_.preparation[meant->name] = meant->value.value_or("true");
      } else {
        request_.passed.push_back(setting);
      }
    } catch (const Error& error) {
      request_.refused.emplace_back(error.what());
    }
    return true;
  }

  /// TRL's {"skip_prepare_dataset": true}, a JSON object.
  void read_dataset_kwargs(const PlacedOption& setting) {
    if (config::is_none(value_of(setting))) return;
    const Block block = block_of(value_of(setting), "");
    if (!block.map.IsMap()) {
      request_.refused.push_back(refusal_of_block(setting.option.name, value_of(setting), setting.place));
      return;
    }
    for (const auto& entry : block.map) {
      const std::string name = entry.first.as<std::string>(), text = text_of(entry.second);
      const PlacedOption inner{{fmt::format("dataset_kwargs.{}", name), text}, setting.place};
      if (name == "skip_prepare_dataset") {
        read_truth(request_, inner, [&](bool skips) { skips_preparation_ = skips; });
      } else if (text != "none") {
        refuse(inner, "of dataset_kwargs TRL has skip_prepare_dataset", "leave it out");
      }
    }
  }

  /// Records of token ids keep their lengths, each a row of its own.
  void leave_rows_alone() {
    if (const auto packing = request_.preparation.find("packing");
        packing != request_.preparation.end() && config::truth_of(packing->second) == true) {
      request_.refused.push_back(refusal("sft-launch does not take skip_prepare_dataset with packing = true",
                                         "rows are either made from documents or taken as they are",
                                         "leave one of the two out"));
      return;
    }
    request_.preparation["packing"] = "false";
    request_.preparation["max_length"] = "none";
    request_.notes.emplace_back(
        "skip_prepare_dataset: sft-prepare takes token ids as they are, and rows of any length; text becomes tokens");
  }

  Request& request_;
  const std::vector<PlacedOption>& source_;
  const std::vector<std::string>& options_;
  std::set<std::string> seen_;  ///< options of sft-prepare in this source
  bool skips_preparation_ = false;
};

}  // namespace

void take(Request& request, const std::vector<PlacedOption>& source,
          const std::vector<std::string>& options_of_prepare) {
  Sorter(request, source, options_of_prepare).sort();
}

bool names_data(const std::vector<PlacedOption>& settings) {
  static const std::set<std::string> names{"datasets",   "dataset_name", "dataset_path",     "dataset", "data_files",
                                           "train_file", "train_files",  "data.train_files", "input"};
  return std::ranges::any_of(settings,
                             [&](const PlacedOption& setting) { return names.contains(setting.option.name); });
}

std::vector<PlacedOption> settings_of_run(const std::vector<PlacedOption>& settings, int num_ranks,
                                          std::vector<std::string>& notes) {
  const bool is_single = std::ranges::any_of(
      settings, [](const PlacedOption& setting) { return setting.option.name == "single_process"; });
  std::vector<PlacedOption> kept;
  for (const PlacedOption& setting : settings) {
    const std::string& name = setting.option.name;
    if (name == "num_processes" || (name == "single_process" && num_ranks > 1)) {
      const std::string wanted = is_single ? "1" : value_of(setting);
      if (num_ranks > 0 && wanted != fmt::format("{}", num_ranks)) {
        throw_config_error(fmt::format("{} started, and {} asked for {}",
                                       num_ranks == 1 ? "1 rank was" : fmt::format("{} ranks were", num_ranks),
                                       wanted == "1" ? "1 is" : wanted + " are", setting.place),
                           "the batch of a step would be another",
                           fmt::format("start {}, or use sft-launch, which does", wanted));
      }
    } else if (!is_needless(name)) {
      kept.push_back(setting);
    } else if (const std::string note = note_on_start(setting); !note.empty()) {
      notes.push_back(note);
    }
  }
  return kept;
}

}  // namespace sft::launch
