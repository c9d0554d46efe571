// SPDX-License-Identifier: Apache-2.0
// Sizes of a run that a planner may choose, and those that a request leaves to it.

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <map>

#include "launch/request_parts.hpp"
#include "sft/config/values.hpp"
#include "sft/launch/request.hpp"

namespace sft::launch {

using config::PlacedOption;

std::string size_named(const std::string& name) {
  static const std::map<std::string, std::string> others{{"cp_size", "sp_size"},
                                                         {"cp_comm_strategy", "sp_method"},
                                                         {"gradient_checkpointing", "activation_checkpointing"},
                                                         {"activation_offloading", "activation_offload"},
                                                         {"micro_batch_size", "per_device_train_batch_size"}};
  std::string key = name.substr(name.find('.') + 1);
  for (const char* prefix : {"parallelism_config_", "fsdp_"}) {
    if (key.starts_with(prefix)) key.erase(0, std::string(prefix).size());
  }
  if (const auto found = others.find(key); found != others.end()) return found->second;
  const std::vector<std::string>& known = sizes_of_plans();
  return std::ranges::find(known, key) != known.end() ? key : "";
}

bool is_resolved_by_sft(const std::string& size) { return size == "dp_shard_size" || size == "sp_method"; }

bool gives_key(const std::vector<std::vector<PlacedOption>>& sources, const std::string& key) {
  return std::ranges::any_of(sources, [&](const std::vector<PlacedOption>& source) {
    return std::ranges::any_of(source, [&](const PlacedOption& setting) {
      const std::string name = setting.option.name.substr(setting.option.name.find('.') + 1);
      return (name == key || size_named(name) == key) && value_of(setting) != "auto" &&
             !config::is_null(value_of(setting));
    });
  });
}

bool Request::gives(const std::string& key) const { return gives_key(training, key); }

std::string note_on_one_copy(const PlacedOption& strategy, const char* why) {
  return fmt::format(
      "`{} = {}` {}: all ranks share one copy of the model, because {}; parallel.dp_replicate_size = N "
      "makes N copies",
      strategy.option.name, value_of(strategy), strategy.place, why);
}

std::optional<PlacedOption> hybrid_strategy(const std::vector<std::vector<PlacedOption>>& sources) {
  for (const std::vector<PlacedOption>& source : sources) {
    for (const PlacedOption& setting : source) {
      const std::string& name = setting.option.name;
      const bool is_strategy = name.ends_with("sharding_strategy");
      if (!is_strategy && name != "fsdp" && name != "fsdp_reshard_after_forward") continue;
      std::string value = value_of(setting);
      std::ranges::transform(value, value.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
      const bool is_number = is_strategy && (value == "4" || value == "5");
      if (is_number || value.find("hybrid_shard") != std::string::npos) return setting;
    }
  }
  return std::nullopt;
}

const std::vector<std::string>& sizes_of_plans() {
  static const std::vector<std::string> names{"dp_replicate_size",
                                              "dp_shard_size",
                                              "ep_size",
                                              "sp_size",
                                              "tp_size",
                                              "zero_stage",
                                              "sp_method",
                                              "activation_checkpointing",
                                              "activation_offload",
                                              "offload_optimizer",
                                              "offload_parameters",
                                              "per_device_train_batch_size",
                                              "gradient_accumulation_steps"};
  return names;
}

std::set<std::string> free_sizes(const Request& request) {
  std::set<std::string> free = request.automatic;
  if (std::ranges::all_of(free, is_resolved_by_sft)) return {};
  const auto open = [&](const std::string& size) {
    if (!request.gives(size)) free.insert(size);
  };
  const std::set<std::string> axes{"dp_replicate_size", "dp_shard_size", "ep_size", "sp_size", "tp_size"};
  const bool has_free_axis = std::ranges::any_of(free, [&](const std::string& size) { return axes.contains(size); });
  open("dp_shard_size");  // all ranks that are left
  if (free.contains("sp_size")) open("sp_method");
  // Rows of a step stay: other data ranks, or other micro-batches, need another number of them.
  if (has_free_axis || free.contains("per_device_train_batch_size")) open("gradient_accumulation_steps");
  if (free.contains("gradient_accumulation_steps")) return free;
  if (has_free_axis) open("per_device_train_batch_size");
  return free;
}

std::int64_t rows_of_step(const Request& request, const config::Config& config, int num_ranks) {
  if (request.train_batch_size) return *request.train_batch_size;
  const auto given = [&](const char* key, int size) { return std::int64_t{request.gives(key) ? size : 1}; };
  const std::int64_t of_a_row = given("sp_size", config.parallel.sp_size) * given("tp_size", config.parallel.tp_size);
  return config.train.per_device_train_batch_size * config.train.gradient_accumulation_steps *
         std::max<std::int64_t>(1, num_ranks / of_a_row);
}

}  // namespace sft::launch
