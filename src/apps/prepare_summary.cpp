// SPDX-License-Identifier: Apache-2.0
#include "prepare_summary.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "json_text.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "sft/core/table.hpp"

namespace sft::apps {

namespace {

constexpr std::size_t max_listed_names = 12;
constexpr std::size_t max_name_bytes = 60;
constexpr std::array usual_roles = {"system", "developer", "user", "assistant", "tool"};

std::string percent(std::int64_t part, std::int64_t whole) {
  std::array<char, 32> text;
  std::snprintf(text.data(), text.size(), "%.1f %%", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
  return text.data();
}

/// "user 20, assistant 19 and 3 more names": the most frequent ones.
std::string list_of(const data::NameCounts& counts) {
  std::vector<std::pair<std::string, std::int64_t>> names(counts.by_name().begin(), counts.by_name().end());
  std::ranges::stable_sort(names, std::greater<>(), &std::pair<std::string, std::int64_t>::second);
  const std::size_t num_listed = std::min(names.size(), max_listed_names);
  std::string list;
  std::int64_t rest = counts.num_others();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& [name, count] = names[i];
    if (i >= num_listed) {
      rest += count;
      continue;
    }
    const std::string shown = printable(name.substr(0, max_name_bytes), false);
    list +=
        (list.empty() ? "" : ", ") + shown + (name.size() > max_name_bytes ? "..." : "") + " " + std::to_string(count);
  }
  if (rest > 0) list += ", others " + std::to_string(rest);
  return list;
}

void warn_of_lost_records(const data::PrepareSummary& summary, const data::PrepareOptions& options) {
  const bool is_packed = options.packing_strategy != data::PackingStrategy::none;
  const std::string of_all = " of " + std::to_string(summary.num_records) + " records, ";
  if (data::truncates(options.packing_strategy) && 4 * summary.num_too_long > summary.num_records) {
    log_warning("many records are cut (max_length = " + std::to_string(options.max_length) + " is too short for " +
                std::to_string(summary.num_too_long) + of_all + percent(summary.num_too_long, summary.num_records) +
                "): give a larger --max_length, or keep all tokens with " +
                (is_packed ? "--packing_strategy bfd_split" : "--packing true --packing_strategy bfd_split"));
  }
  if (4 * summary.num_without_target > summary.num_records) {
    log_warning("many records have nothing to train on within max_length (" +
                std::to_string(summary.num_without_target) + of_all +
                percent(summary.num_without_target, summary.num_records) +
                (is_packed ? ", which take room in the rows" : ", which are dropped") +
                "): check --max_length, --assistant_only_loss and the weights of the messages");
  }
}

void warn_of_roles(const data::PrepareSummary& summary) {
  for (const auto& [role, count] : summary.census.roles.by_name()) {
    if (std::ranges::find(usual_roles, role) != usual_roles.end()) continue;
    log_warning("the role '" + printable(role.substr(0, max_name_bytes), false) + "' of " + std::to_string(count) +
                " messages is none of system, developer, user, assistant and tool (the chat template decides what "
                "becomes of it, and --assistant_only_loss does not train on it): rename it if one of these is meant");
  }
}

void warn_of_oddities(const data::RecordCensus& census) {
  const auto warn = [](std::int64_t count, const char* what) {
    if (count > 0) log_warning(std::to_string(count) + what);
  };
  warn(
      census.num_split_prompts,
      " prompts end in other tokens than prompt and completion have there (tokens or the chat template join them): the "
      "completion begins where the two part");
  warn(census.num_ignored_masks,
       " records have a 'completion_mask' that is not obeyed (as in TRL, only --completion_only_loss makes it count): "
       "all their tokens are trained on");
  warn(census.num_empty_tool_lists,
       " records have an empty list of tools (some chat templates then write their words about tools): use null for "
       "none");
  warn(census.num_unmarked_chats,
       " conversations have no token of an assistant (the chat template writes none): nothing in them is trained on");
}

/// Names of --ignore_fields may be slips of the pen.
void warn_of_fields_not_met(const data::RecordCensus& census, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto is_it = [&](const auto& field) { return field.first == name || field.first.ends_with("[]." + name); };
    if (std::ranges::any_of(census.dropped_fields.by_name(), is_it)) continue;
    log_warning("no record has a value under '" + printable(name.substr(0, max_name_bytes), false) +
                "' (--ignore_fields names it): leave it out if the name is right");
  }
}

std::string text_of_efficiency(const data::SplitSummary& split) {
  std::array<char, 32> efficiency;
  std::snprintf(efficiency.data(), efficiency.size(), "%.2f %%", 100.0 * split.packing_efficiency());
  return efficiency.data();
}

std::string list_of_files(const data::SplitSummary& split) {
  return std::to_string(split.files.size()) + ": " + split.files.front() +
         (split.files.size() > 1 ? " ... " + split.files.back() : "");
}

nlohmann::ordered_json json_of(const data::NameCounts& counts) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, count] : counts.by_name()) object[name] = count;
  if (counts.num_others() > 0) object["(others)"] = counts.num_others();
  return object;
}

}  // namespace

void print_summary(const data::PrepareSummary& summary, const data::PrepareOptions& options) {
  const data::SplitSummary& train = summary.train();
  const bool is_packed = options.packing_strategy != data::PackingStrategy::none;
  Table table({Align::left, Align::left}, 2);
  const auto line = [&table](const char* name, const std::string& value) { table.add({name, value}); };
  line("records", std::to_string(summary.num_records));
  if (summary.num_skipped > 0) line("skipped", std::to_string(summary.num_skipped) + " (bad records)");
  line("shapes", list_of(summary.census.shapes));
  if (!summary.census.roles.by_name().empty()) line("roles", list_of(summary.census.roles));
  if (!summary.census.ignored_fields.by_name().empty()) line("ignored fields", list_of(summary.census.ignored_fields));
  if (!summary.census.dropped_fields.by_name().empty()) line("dropped fields", list_of(summary.census.dropped_fields));
  if (summary.num_left_out > 0) line("left out", std::to_string(summary.num_left_out) + " (by --input_weight)");
  if (is_packed) {
    line("without target",
         std::to_string(summary.num_without_target) + " (nothing to train on within max_length; kept)");
  } else {
    line("dropped", std::to_string(summary.num_dropped) + " (no target within max_length)");
  }
  line("truncated", std::to_string(summary.num_truncated) + " (cut at max_length)");
  line("documents", std::to_string(train.num_documents));
  line("tokens", std::to_string(train.num_tokens));
  line("target tokens", std::to_string(train.num_target_tokens));
  line("rows", std::to_string(train.num_rows) + " of " + std::to_string(summary.row_length) + " tokens");
  line("padding", plural(train.num_padding_tokens, "token"));
  line("packing strategy", data::name_of(options.packing_strategy));
  line("packing efficiency", text_of_efficiency(train));
  line("files", list_of_files(train));
  if (summary.num_kept_shards > 0) {
    line("kept", fmt::format("{} of them, which an earlier sft-prepare had finished", summary.num_kept_shards));
  }
  for (std::size_t i = 1; i < summary.splits.size(); ++i) {
    const data::SplitSummary& held_back = summary.splits[i];
    line("held back", plural(held_back.num_documents, "document") + ", " + plural(held_back.num_tokens, "token") +
                          " in " + plural(held_back.num_rows, "row"));
    line("", list_of_files(held_back));
  }
  std::string text = table.text();
  text.pop_back();  // log_info ends the line
  log_info("prepared " + options.output + "\n" + text);
  for (const std::string& skipped : summary.skipped) log_warning("skipped " + printable(skipped, false));
  if (summary.num_skipped > std::ssize(summary.skipped)) {
    log_warning("skipped " + std::to_string(summary.num_skipped - std::ssize(summary.skipped)) + " more bad records");
  }
  warn_of_lost_records(summary, options);
  warn_of_roles(summary);
  warn_of_oddities(summary.census);
  warn_of_fields_not_met(summary.census, options.example.ignore_fields);
}

void print_summary_json(const data::PrepareSummary& summary, const data::PrepareOptions& options) {
  nlohmann::ordered_json json = {{"output", options.output},
                                 {"num_records", summary.num_records},
                                 {"num_skipped", summary.num_skipped},
                                 {"skipped", summary.skipped},
                                 {"shapes", json_of(summary.census.shapes)},
                                 {"roles", json_of(summary.census.roles)},
                                 {"ignored_fields", json_of(summary.census.ignored_fields)},
                                 {"dropped_fields", json_of(summary.census.dropped_fields)},
                                 {"num_dropped", summary.num_dropped},
                                 {"num_without_target", summary.num_without_target},
                                 {"num_too_long", summary.num_too_long},
                                 {"num_truncated", summary.num_truncated},
                                 {"num_left_out", summary.num_left_out},
                                 {"num_kept_shards", summary.num_kept_shards},
                                 {"num_split_prompts", summary.census.num_split_prompts},
                                 {"num_ignored_masks", summary.census.num_ignored_masks},
                                 {"num_empty_tool_lists", summary.census.num_empty_tool_lists},
                                 {"num_unmarked_chats", summary.census.num_unmarked_chats},
                                 {"packing_strategy", data::name_of(options.packing_strategy)},
                                 {"row_length", summary.row_length}};
  nlohmann::ordered_json histogram = nlohmann::ordered_json::array();
  for (std::size_t bits = 0; bits < summary.lengths.counts.size(); ++bits) {
    if (summary.lengths.counts[bits] == 0) continue;
    const std::int64_t least = bits == 0 ? 0 : std::int64_t{1} << (bits - 1);
    histogram.push_back({{"from", least}, {"count", summary.lengths.counts[bits]}});
  }
  json["lengths"] = {{"shortest", summary.lengths.shortest},
                     {"longest", summary.lengths.longest},
                     {"sum", summary.lengths.sum},
                     {"histogram", std::move(histogram)}};
  for (const data::SplitSummary& split : summary.splits) {
    json[split.split] = {{"num_documents", split.num_documents},
                         {"num_tokens", split.num_tokens},
                         {"num_target_tokens", split.num_target_tokens},
                         {"num_rows", split.num_rows},
                         {"num_padding_tokens", split.num_padding_tokens},
                         {"packing_efficiency", split.packing_efficiency()},
                         {"files", split.files}};
  }
  log_info(json_text(json));
}

void print_statistics(const data::PrepareSummary& summary) {
  constexpr std::size_t bar_width = 40;
  const data::LengthStatistics& lengths = summary.lengths;
  std::array<char, 96> mean;
  std::snprintf(mean.data(), mean.size(), "%.1f",
                static_cast<double>(lengths.sum) / static_cast<double>(std::max<std::int64_t>(summary.num_records, 1)));
  Table table({Align::right, Align::right, Align::left}, 2);
  table.add({"tokens", "records", ""});
  const std::int64_t most = std::ranges::max(lengths.counts);
  for (std::size_t bits = 0; bits < lengths.counts.size(); ++bits) {
    const std::int64_t count = lengths.counts[bits];
    if (count == 0) continue;
    const std::int64_t least = bits == 0 ? 0 : std::int64_t{1} << (bits - 1);
    const std::int64_t last = bits == 0 ? 0 : 2 * least - 1;
    const std::size_t width = count * static_cast<std::int64_t>(bar_width) / most;
    table.add({std::to_string(least) + "-" + std::to_string(last), std::to_string(count), std::string(width, '#')});
  }
  std::string text = table.text();
  text.pop_back();
  log_info("\nlengths before any is cut: shortest " + std::to_string(lengths.shortest) + ", mean " + mean.data() +
           ", longest " + std::to_string(lengths.longest) + " tokens; " + std::to_string(summary.num_too_long) +
           " are longer than max_length, " + std::to_string(summary.num_without_target) +
           " have nothing to train on within it\n" + text);
}

}  // namespace sft::apps
