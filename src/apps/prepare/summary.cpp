// SPDX-License-Identifier: Apache-2.0
#include "summary.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "apps/common/json_text.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "sft/core/table.hpp"
#include "unread_fields.hpp"

namespace sft::apps {

namespace {

constexpr std::size_t max_listed_names = 12;
constexpr std::size_t max_name_bytes = 60;
constexpr std::array usual_roles = {"system", "developer", "user", "assistant", "tool"};

std::string percent(std::int64_t part, std::int64_t whole) {
  return fmt::format("{:.1f} %", 100.0 * static_cast<double>(part) / static_cast<double>(whole));
}

/// "user 20, assistant 19 and 3 more names": the most frequent ones.
std::string list_of(const prepare::NameCounts& counts) {
  std::vector<std::pair<std::string, std::int64_t>> names(counts.by_name().begin(), counts.by_name().end());
  std::ranges::stable_sort(names, std::greater<>(), &std::pair<std::string, std::int64_t>::second);
  const std::size_t num_listed = std::min(names.size(), max_listed_names);
  std::vector<std::string> list;
  std::int64_t rest = counts.num_others();
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto& [name, count] = names[i];
    if (i >= num_listed) {
      rest += count;
      continue;
    }
    const std::string shown = printable(name.substr(0, max_name_bytes), false);
    list.push_back(fmt::format("{}{} {}", shown, name.size() > max_name_bytes ? "..." : "", count));
  }
  if (rest > 0) list.push_back(fmt::format("others {}", rest));
  return fmt::format("{}", fmt::join(list, ", "));
}

void warn_of_lost_records(const prepare::PrepareSummary& summary, const prepare::PrepareOptions& options) {
  const bool is_packed = options.packing_strategy != prepare::PackingStrategy::none;
  if (prepare::truncates(options.packing_strategy) && 4 * summary.num_too_long > summary.num_records) {
    log_warning(
        fmt::format("many records are cut (max_length = {} is too short for {} of {} records, {}): give a larger "
                    "--max_length, or keep all "
                    "tokens with {}",
                    options.max_length, summary.num_too_long, summary.num_records,
                    percent(summary.num_too_long, summary.num_records),
                    is_packed ? "--packing_strategy bfd_split" : "--packing true --packing_strategy bfd_split"));
  }
  if (4 * summary.num_without_target > summary.num_records) {
    log_warning(fmt::format(
        "many records have nothing to train on within max_length ({} of {} records, {}{}): check --max_length, "
        "--assistant_only_loss and the weights of the messages",
        summary.num_without_target, summary.num_records, percent(summary.num_without_target, summary.num_records),
        is_packed ? ", which take room in the rows" : ", which are dropped"));
  }
}

void warn_of_roles(const prepare::PrepareSummary& summary) {
  for (const auto& [role, count] : summary.census.roles.by_name()) {
    if (std::ranges::find(usual_roles, role) != usual_roles.end()) continue;
    log_warning(
        fmt::format("the role '{}' of {} is none of system, developer, user, assistant and tool (the chat "
                    "template decides what becomes of it, and --assistant_only_loss does not train on it): rename it "
                    "if one of these is meant{}",
                    printable(role.substr(0, max_name_bytes), false), plural(count, "message"),
                    summary.census.shapes.by_name().contains("messages")
                        ? "; --rename messages=conversations renames those of other formats (gpt, User, tool_call)"
                        : ""));
  }
}

void warn_of_oddities(const prepare::RecordCensus& census) {
  const auto warn = [](std::int64_t count, const char* what) {
    if (count > 0) log_warning(fmt::format("{} {}", count, what));
  };
  warn(census.num_split_prompts,
       "prompts end in other tokens than prompt and completion have there (tokens or the chat template join them): the "
       "completion begins where the two part");
  warn(census.num_ignored_masks,
       "records have a 'completion_mask' that is not obeyed (as in TRL, only --completion_only_loss makes it count): "
       "all their tokens are trained on");
  warn(census.num_empty_tool_lists,
       "records have an empty list of tools (some chat templates then write their words about tools): use null for "
       "none");
  warn(census.num_plain_calls,
       "turns of the role function_call hold no JSON with name and arguments: they are trained on as text of the "
       "assistant");
  warn(census.num_hidden_contents,
       "messages have 'tool_calls' and also a 'content' (the chat template shows the calls alone): the content is not "
       "trained on");
  warn(census.num_unmarked_chats,
       "conversations have no token of an assistant (the chat template writes none): nothing in them is trained on");
}

/// Names of --ignore_fields may be slips of the pen.
void warn_of_fields_not_met(const prepare::RecordCensus& census, const std::vector<std::string>& names) {
  for (const std::string& name : names) {
    const auto is_it = [&](const auto& field) { return field.first == name || field.first.ends_with("[]." + name); };
    if (std::ranges::any_of(census.dropped_fields.by_name(), is_it)) continue;
    log_warning(
        fmt::format("no record has a value under '{}' (--ignore_fields names it): leave it out if the name is right",
                    printable(name.substr(0, max_name_bytes), false)));
  }
}

std::string list_of_files(const prepare::SplitSummary& split) {
  return fmt::format("{}: {}{}", split.files.size(), split.files.front(),
                     split.files.size() > 1 ? fmt::format(" ... {}", split.files.back()) : "");
}

/// "; --max_length 640 cuts none", where something is cut.
std::string least_that_cuts_none(const prepare::PrepareSummary& summary) {
  return summary.num_truncated > 0 ? fmt::format("; --max_length {} cuts none", summary.lengths.longest) : "";
}

nlohmann::ordered_json json_of(const prepare::NameCounts& counts) {
  nlohmann::ordered_json object = nlohmann::ordered_json::object();
  for (const auto& [name, count] : counts.by_name()) object[name] = count;
  if (counts.num_others() > 0) object["(others)"] = counts.num_others();
  return object;
}

}  // namespace

void print_summary(const prepare::PrepareSummary& summary, const prepare::PrepareOptions& options,
                   const RecordInputs& inputs) {
  const prepare::SplitSummary& train = summary.train();
  const bool is_packed = options.packing_strategy != prepare::PackingStrategy::none;
  Table table({Align::left, Align::left}, 2);
  const auto line = [&table](const char* name, const std::string& value) { table.add({name, value}); };
  line("read", printable(launch::list_of(inputs.files), false));
  if (!inputs.left_out.empty()) line("not read", printable(launch::list_of(inputs.left_out), false));
  line("records", std::to_string(summary.num_records));
  if (summary.num_skipped > 0) line("skipped", fmt::format("{} (bad records)", summary.num_skipped));
  line("shapes", list_of(summary.census.shapes));
  if (!summary.census.roles.by_name().empty()) line("roles", list_of(summary.census.roles));
  if (!summary.census.ignored_fields.by_name().empty()) line("ignored fields", list_of(summary.census.ignored_fields));
  if (!summary.census.dropped_fields.by_name().empty()) line("dropped fields", list_of(summary.census.dropped_fields));
  if (summary.num_left_out > 0)
    line("left out", fmt::format("{} (by --input_weight or --input_slice)", summary.num_left_out));
  if (is_packed) {
    line("without target", fmt::format("{} (nothing to train on within max_length; kept)", summary.num_without_target));
  } else {
    line("dropped", fmt::format("{} (no target within max_length)", summary.num_dropped));
  }
  line("truncated", fmt::format("{} (cut at max_length{})", summary.num_truncated, least_that_cuts_none(summary)));
  line("documents", std::to_string(train.num_documents));
  line("tokens", std::to_string(train.num_tokens));
  line("target tokens", std::to_string(train.num_target_tokens));
  line("rows", fmt::format("{} of {} tokens", train.num_rows, summary.row_length));
  line("padding", plural(train.num_padding_tokens, "token"));
  line("packing strategy", prepare::name_of(options.packing_strategy));
  line("packing efficiency", fmt::format("{:.2f} %", 100.0 * train.packing_efficiency()));
  line("files", list_of_files(train));
  if (summary.num_kept_shards > 0) {
    line("kept", fmt::format("{} of them, which an earlier sft-prepare had finished", summary.num_kept_shards));
  }
  for (std::size_t i = 1; i < summary.splits.size(); ++i) {
    const prepare::SplitSummary& held_back = summary.splits[i];
    line("held back", fmt::format("{}, {} in {}", plural(held_back.num_documents, "document"),
                                  plural(held_back.num_tokens, "token"), plural(held_back.num_rows, "row")));
    line("", list_of_files(held_back));
  }
  std::string text = table.text();
  text.pop_back();  // log_info ends the line
  log_info(fmt::format("prepared {}\n{}", options.output, text));
  for (const std::string& skipped : summary.skipped) log_warning(fmt::format("skipped {}", printable(skipped, false)));
  if (summary.num_skipped > std::ssize(summary.skipped)) {
    log_warning(fmt::format("skipped {} more bad records", summary.num_skipped - std::ssize(summary.skipped)));
  }
  warn_of_lost_records(summary, options);
  warn_of_roles(summary);
  warn_of_oddities(summary.census);
  warn_of_unread_fields(summary.census.ignored_fields);
  warn_of_fields_not_met(summary.census, options.example.ignore_fields);
}

void print_summary_json(const prepare::PrepareSummary& summary, const prepare::PrepareOptions& options,
                        const RecordInputs& inputs) {
  nlohmann::ordered_json left_out = nlohmann::ordered_json::array();
  for (const launch::LeftOut& item : inputs.left_out) left_out.push_back({{"file", item.file}, {"why", item.why}});
  nlohmann::ordered_json json = {{"output", options.output},
                                 {"files_read", inputs.files},
                                 {"files_left_out", left_out},
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
                                 {"num_plain_calls", summary.census.num_plain_calls},
                                 {"num_hidden_contents", summary.census.num_hidden_contents},
                                 {"num_unmarked_chats", summary.census.num_unmarked_chats},
                                 {"packing_strategy", prepare::name_of(options.packing_strategy)},
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
  for (const prepare::SplitSummary& split : summary.splits) {
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

void print_statistics(const prepare::PrepareSummary& summary) {
  constexpr std::size_t bar_width = 40;
  const prepare::LengthStatistics& lengths = summary.lengths;
  const double mean =
      static_cast<double>(lengths.sum) / static_cast<double>(std::max<std::int64_t>(summary.num_records, 1));
  Table table({Align::right, Align::right, Align::left}, 2);
  table.add({"tokens", "records", ""});
  const std::int64_t most = std::ranges::max(lengths.counts);
  for (std::size_t bits = 0; bits < lengths.counts.size(); ++bits) {
    const std::int64_t count = lengths.counts[bits];
    if (count == 0) continue;
    const std::int64_t least = bits == 0 ? 0 : std::int64_t{1} << (bits - 1);
    const std::int64_t last = bits == 0 ? 0 : 2 * least - 1;
    const std::size_t width = count * static_cast<std::int64_t>(bar_width) / most;
    table.add({fmt::format("{}-{}", least, last), std::to_string(count), std::string(width, '#')});
  }
  std::string text = table.text();
  text.pop_back();
  log_info(
      fmt::format("\nlengths before any is cut: shortest {}, mean {:.1f}, longest {} tokens; {} are longer than "
                  "max_length, {} have "
                  "nothing to train on within it\n{}",
                  lengths.shortest, mean, lengths.longest, summary.num_too_long, summary.num_without_target, text));
}

}  // namespace sft::apps
