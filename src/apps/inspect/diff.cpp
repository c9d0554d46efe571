// SPDX-License-Identifier: Apache-2.0
#include "views.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <vector>

#include "apps/common/json_text.hpp"
#include "sft/checkpoint/inspect.hpp"
#include "sft/config/parse.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "sft/core/table.hpp"
#include "weight_folder.hpp"

namespace sft::apps {

namespace {

using Kind = WeightFolder::Kind;

/// Keys that a config.json, or an adapter_config.json, has no field for.
bool is_of_runs_alone(const std::string& key) {
  static const std::vector<std::string> keys{
      "model.model_name_or_path", "model.model_revision", "model.init_seed",
      "model.initializer_range",  "lora.use_peft",        "lora.lora_target_modules"};
  return std::ranges::find(keys, key) != keys.end();
}

bool has_section(const WeightFolder& folder, const std::string& section) {
  return folder.kind == Kind::checkpoint || section == (folder.kind == Kind::model ? "model" : "lora");
}

/// The keys that both have and that differ.
std::vector<config::Difference> changed_keys(const WeightFolder& before, const WeightFolder& after) {
  std::vector<config::Difference> keys = config::differences(before.config, after.config);
  const bool are_runs = before.kind == Kind::checkpoint && after.kind == Kind::checkpoint;
  std::erase_if(keys, [&](const config::Difference& key) {
    if (!has_section(before, key.section) || !has_section(after, key.section)) return true;
    return !are_runs && is_of_runs_alone(fmt::format("{}.{}", key.section, key.name));
  });
  return keys;
}

/// The runs of a lineage, oldest first, each with the last step of it that belongs there.
std::vector<checkpoint::Ancestor> runs_of(const checkpoint::Position& position) {
  std::vector<checkpoint::Ancestor> runs = position.lineage.ancestors;
  runs.push_back({position.lineage.run_id, position.step});
  return runs;
}

/// How two checkpoints are related.
std::string describe_lineage(const checkpoint::Position& before, const checkpoint::Position& after) {
  if (before.lineage.run_id.empty() || after.lineage.run_id.empty()) return "not known: sft 0.1.0 wrote one of them";
  const std::string steps = plural(std::abs(after.step - before.step), "step");
  if (before.lineage.run_id == after.lineage.run_id) {
    if (before.step == after.step) return "the same step of one run";
    return fmt::format("one run, the second {} {}", steps, after.step > before.step ? "later" : "earlier");
  }
  if (checkpoint::contains(after.lineage, before.lineage.run_id, before.step)) {
    return fmt::format("the second is of a run that goes on from the first, {} later", steps);
  }
  if (checkpoint::contains(before.lineage, after.lineage.run_id, after.step)) {
    return fmt::format("the first is of a run that goes on from the second, {} later", steps);
  }
  const std::vector<checkpoint::Ancestor> firsts = runs_of(before), seconds = runs_of(after);
  for (auto first = firsts.rbegin(); first != firsts.rend(); ++first) {
    const auto second = std::ranges::find(seconds, first->run_id, &checkpoint::Ancestor::run_id);
    if (second == seconds.end()) continue;
    return fmt::format("branches of the run {}, the same up to step {}", first->run_id,
                       std::min(first->last_step, second->last_step));
  }
  return "no run in common";
}

/// A tensor of both, or of one.
struct Pair {
  std::string name;
  std::optional<io::TensorInfo> before, after;
  std::optional<checkpoint::Difference> difference;  ///< of two of one shape

  [[nodiscard]] bool is_same() const {
    return difference && difference->num_different == 0 && before->dtype == after->dtype;
  }
};

bool is_weight(const io::TensorInfo& tensor) {
  const std::string entry = io::entry_of(tensor.name);
  return entry == "model" || entry == "adapter";
}

/// All pairs, those of `before` in its order, then those of `after` alone. Weights go by their names alone, because
/// folders call the entry that they are in differently.
std::vector<Pair> pairs_of(const WeightFolder& before, const WeightFolder& after, bool optimizer) {
  std::vector<Pair> pairs;
  std::map<std::string, std::size_t> places;
  const auto take = [&](const WeightFolder& folder, std::optional<io::TensorInfo> Pair::*side) {
    for (const io::TensorInfo& tensor : folder.source->tensors()) {
      if (!is_weight(tensor) && !optimizer) continue;
      const std::string name = is_weight(tensor) ? tensor.name.substr(tensor.name.find('/') + 1) : tensor.name;
      const auto [place, is_new] = places.emplace(name, pairs.size());
      if (is_new) pairs.emplace_back().name = name;
      pairs[place->second].*side = tensor;
    }
  };
  take(before, &Pair::before);
  take(after, &Pair::after);
  return pairs;
}

std::vector<Pair> compare_all(const WeightFolder& before, const WeightFolder& after, bool optimizer) {
  std::vector<Pair> pairs = pairs_of(before, after, optimizer);
  bool has_common = false;
  for (Pair& pair : pairs) {
    if (!pair.before || !pair.after) continue;
    has_common = true;
    if (pair.before->shape != pair.after->shape) continue;
    pair.difference = checkpoint::compare(*before.source, *pair.before, *after.source, *pair.after);
  }
  if (has_common) return pairs;
  throw_data_error(fmt::format("cannot compare {} and {}", before.path, after.path),
                   fmt::format("they have no tensor in common: {} and {}", name_of(before.kind), name_of(after.kind)),
                   "give two of one model, or two adapters");
}

/// Of all tensors of both together.
struct Totals {
  std::int64_t num_same = 0, num_changed = 0, num_before_alone = 0, num_after_alone = 0;
  checkpoint::Difference difference;
};

Totals total_of(const std::vector<Pair>& pairs) {
  Totals totals;
  double squares = 0.0, before_squares = 0.0;
  for (const Pair& pair : pairs) {
    if (!pair.before || !pair.after) {
      ++(pair.before ? totals.num_before_alone : totals.num_after_alone);
      continue;
    }
    ++(pair.is_same() ? totals.num_same : totals.num_changed);
    if (!pair.difference) continue;
    const checkpoint::Difference& one = *pair.difference;
    double& largest = totals.difference.max_abs;
    if (std::isnan(one.max_abs) || one.max_abs > largest) largest = one.max_abs;
    totals.difference.num_different += one.num_different;
    squares += one.norm * one.norm;
    before_squares += one.before_norm * one.before_norm;
  }
  totals.difference.norm = std::sqrt(squares);
  totals.difference.before_norm = std::sqrt(before_squares);
  return totals;
}

std::string format_number(double value) { return fmt::format("{:.5g}", value); }

std::string form_of(const io::TensorInfo& tensor) {
  return fmt::format("{} {}", fmt::join(tensor.shape, " x "), name_of(tensor.dtype));
}

std::string forms_of(const Pair& pair) {
  if (!pair.before) return form_of(*pair.after);
  if (!pair.after || form_of(*pair.before) == form_of(*pair.after)) return form_of(*pair.before);
  return fmt::format("{} -> {}", form_of(*pair.before), form_of(*pair.after));
}

std::string describe(const Totals& totals) {
  std::string text =
      fmt::format("{} of {} differ", totals.num_changed, plural(totals.num_same + totals.num_changed, "tensor"));
  if (totals.difference.num_different > 0) {
    text += fmt::format(": {}, by {} at most, relative norm {}", plural(totals.difference.num_different, "element"),
                        format_number(totals.difference.max_abs), format_number(totals.difference.relative()));
  }
  if (totals.num_before_alone > 0) text += fmt::format("; {} in the first alone", totals.num_before_alone);
  if (totals.num_after_alone > 0) text += fmt::format("; {} in the second alone", totals.num_after_alone);
  return text;
}

/// What the two are, line by line.
Table table_of(const WeightFolder& before, const WeightFolder& after) {
  Table table({Align::left, Align::left, Align::left});
  table.add({"", before.path, after.path});
  table.add_rule();
  table.add({"kind", name_of(before.kind), name_of(after.kind)});
  const auto add = [&](const char* what, const auto& text_of) {
    const auto cell = [&](const WeightFolder& folder) { return folder.header ? text_of(*folder.header) : ""; };
    if (before.header || after.header) table.add({what, cell(before), cell(after)});
  };
  add("step", [](const checkpoint::Header& header) { return fmt::format("{}", header.position.step); });
  add("written", [](const checkpoint::Header& header) { return header.date; });
  add("run", [](const checkpoint::Header& header) { return header.position.lineage.run_id; });
  add("mesh", [](const checkpoint::Header& header) { return header.mesh; });
  add("sft", [](const checkpoint::Header& header) { return header.sft_version; });
  add("format version", [](const checkpoint::Header& header) { return fmt::format("{}", header.format_version); });
  add("data", [](const checkpoint::Header& header) { return header.position.data_fingerprint; });
  return table;
}

void print_difference_text(const WeightFolder& before, const WeightFolder& after, const std::vector<Pair>& pairs) {
  log_info(table_of(before, after).text());
  if (before.header && after.header) {
    log_info(fmt::format("lineage: {}\n", describe_lineage(before.header->position, after.header->position)));
  }
  if (const auto keys = changed_keys(before, after); !keys.empty()) {
    Table table({Align::left, Align::left, Align::left});
    table.add({"key", "first", "second"});
    table.add_rule();
    for (const config::Difference& key : keys) {
      table.add({fmt::format("{}.{}", key.section, key.name), key.before, key.now});
    }
    log_info(table.text());
  }
  const Totals totals = total_of(pairs);
  if (totals.num_same < std::ssize(pairs)) {
    Table table({Align::left, Align::left, Align::right, Align::right});
    table.add({"tensor", "form", "largest difference", "relative norm"});
    table.add_rule();
    for (const Pair& pair : pairs) {
      if (pair.is_same()) continue;
      const auto cell = [&](double value) { return pair.difference ? format_number(value) : ""; };
      const checkpoint::Difference difference = pair.difference.value_or(checkpoint::Difference{});
      const char* const alone = !pair.before ? " (second alone)" : !pair.after ? " (first alone)" : "";
      table.add({fmt::format("{}{}", pair.name, alone), forms_of(pair), cell(difference.max_abs),
                 cell(difference.relative())});
    }
    log_info(table.text());
  }
  log_info(describe(totals));
}

nlohmann::ordered_json json_of(const WeightFolder& folder) {
  nlohmann::ordered_json json = {{"path", folder.path}, {"kind", name_of(folder.kind)}};
  if (!folder.header) return json;
  const checkpoint::Header& header = *folder.header;
  json["step"] = header.position.step;
  json["date"] = header.date;
  json["run_id"] = header.position.lineage.run_id;
  json["mesh"] = header.mesh;
  json["sft_version"] = header.sft_version;
  json["format_version"] = header.format_version;
  json["data_fingerprint"] = header.position.data_fingerprint;
  return json;
}

nlohmann::ordered_json json_of(const Pair& pair) {
  nlohmann::ordered_json json = {{"name", pair.name}, {"same", pair.is_same()}};
  const auto add = [&](const char* side, const std::optional<io::TensorInfo>& tensor) {
    if (tensor) json[side] = {{"shape", tensor->shape}, {"dtype", name_of(tensor->dtype)}};
  };
  add("before", pair.before);
  add("after", pair.after);
  if (!pair.difference) return json;
  json["max_abs"] = pair.difference->max_abs;
  json["relative"] = pair.difference->relative();
  json["num_different"] = pair.difference->num_different;
  return json;
}

void print_difference_json(const WeightFolder& before, const WeightFolder& after, const std::vector<Pair>& pairs) {
  nlohmann::ordered_json json = {{"before", json_of(before)}, {"after", json_of(after)}};
  if (before.header && after.header) {
    json["lineage"] = describe_lineage(before.header->position, after.header->position);
  }
  json["config"] = nlohmann::ordered_json::array();
  for (const config::Difference& key : changed_keys(before, after)) {
    json["config"].push_back(
        {{"key", fmt::format("{}.{}", key.section, key.name)}, {"before", key.before}, {"after", key.now}});
  }
  json["tensors"] = nlohmann::ordered_json::array();
  for (const Pair& pair : pairs) json["tensors"].push_back(json_of(pair));
  const Totals totals = total_of(pairs);
  json["summary"] = {{"num_same", totals.num_same},
                     {"num_changed", totals.num_changed},
                     {"num_before_alone", totals.num_before_alone},
                     {"num_after_alone", totals.num_after_alone},
                     {"num_different", totals.difference.num_different},
                     {"max_abs", totals.difference.max_abs},
                     {"relative", totals.difference.relative()}};
  log_info(json_text(json));
}

}  // namespace

bool print_diff(const DiffOptions& options) {
  const WeightFolder before = open_weight_folder(options.before), after = open_weight_folder(options.after);
  const std::vector<Pair> pairs = compare_all(before, after, options.optimizer);
  (options.json ? print_difference_json : print_difference_text)(before, after, pairs);
  return std::ranges::all_of(pairs, &Pair::is_same);
}

}  // namespace sft::apps
