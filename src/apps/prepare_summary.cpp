// SPDX-License-Identifier: Apache-2.0
#include "prepare_summary.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "printable.hpp"
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
  const std::string of_all = " of " + std::to_string(summary.num_records) + " records, ";
  if (data::truncates(options.packing_strategy) && 2 * summary.num_too_long > summary.num_records) {
    log_warning("most records are cut (max_length = " + std::to_string(options.max_length) + " is too short for " +
                std::to_string(summary.num_too_long) + of_all + percent(summary.num_too_long, summary.num_records) +
                "): give a larger --max_length, or keep all tokens with --packing_strategy bfd_split");
  }
  if (2 * summary.num_dropped > summary.num_records) {
    log_warning("most records are dropped (" + std::to_string(summary.num_dropped) + of_all +
                percent(summary.num_dropped, summary.num_records) +
                ", have nothing to train on within max_length): check --max_length, --assistant_only_loss and the "
                "weights of the messages");
  }
}

void warn_of_roles(const data::PrepareSummary& summary) {
  for (const auto& [role, count] : summary.census.roles.by_name()) {
    if (std::ranges::find(usual_roles, role) != usual_roles.end()) continue;
    log_warning("the role '" + printable(role.substr(0, max_name_bytes), false) + "' of " + std::to_string(count) +
                " messages is none of system, developer, user, assistant and tool (it is written as it is, and "
                "--assistant_only_loss does not train on it): rename it if one of these is meant");
  }
}

}  // namespace

void print_summary(const data::PrepareSummary& summary, const data::PrepareOptions& options) {
  Table table({Align::left, Align::left}, 2);
  const auto line = [&table](const char* name, const std::string& value) { table.add({name, value}); };
  std::array<char, 32> efficiency;
  std::snprintf(efficiency.data(), efficiency.size(), "%.2f %%", 100.0 * summary.packing_efficiency());
  line("records", std::to_string(summary.num_records));
  if (!summary.census.roles.by_name().empty()) line("roles", list_of(summary.census.roles));
  if (!summary.census.ignored_fields.by_name().empty()) line("ignored fields", list_of(summary.census.ignored_fields));
  line("dropped", std::to_string(summary.num_dropped) + " (no target within max_length)");
  line("truncated", std::to_string(summary.num_truncated) + " (cut at max_length)");
  line("documents", std::to_string(summary.num_documents));
  line("tokens", std::to_string(summary.num_tokens));
  line("target tokens", std::to_string(summary.num_target_tokens));
  line("rows", std::to_string(summary.num_rows) + " of " + std::to_string(summary.row_length) + " tokens");
  line("padding", std::to_string(summary.num_padding_tokens) + " tokens");
  line("packing strategy", data::name_of(options.packing_strategy));
  line("packing efficiency", efficiency.data());
  const std::string& last = summary.files.back();
  line("files", std::to_string(summary.files.size()) + ": " + summary.files.front() +
                    (summary.files.size() > 1 ? " ... " + last : ""));
  std::string text = table.text();
  text.pop_back();  // log_info ends the line
  log_info("prepared " + options.output + "\n" + text);
  warn_of_lost_records(summary, options);
  warn_of_roles(summary);
}

}  // namespace sft::apps
