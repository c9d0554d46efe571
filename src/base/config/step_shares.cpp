// SPDX-License-Identifier: Apache-2.0
#include "sft/config/step_shares.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <sstream>

#include "sft/config/ini.hpp"

namespace sft::config {

namespace {

/// The share of a key, by its name with a section or without; none: the key has none.
std::optional<double>* share_of(StepShares& shares, const std::string& name) {
  const std::string key = name.substr(name.find('.') + 1);
  if (key == "save_steps") return &shares.save_steps;
  if (key == "eval_steps") return &shares.eval_steps;
  if (key == "logging_steps") return &shares.logging_steps;
  return nullptr;
}

std::optional<double> read_share(const std::string& text) {
  double share = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), share);
  const bool is_share = error == std::errc() && end == text.data() + text.size() && share > 0 && share < 1;
  return is_share ? std::optional(share) : std::nullopt;
}

/// Whether the setting is a share, which is then taken. One that is none replaces a share that was given before.
bool take(StepShares& shares, const std::string& name, const std::string& value) {
  std::optional<double>* const share = share_of(shares, name);
  if (share == nullptr) return false;
  *share = read_share(value);
  return share->has_value();
}

std::int64_t steps_of(double share, std::int64_t num_steps) {
  constexpr double rounding_slack = 1e-9;  // 0.1 of 30 steps are 3, not 3.0000000000000004
  const double steps = std::ceil(share * static_cast<double>(num_steps) - rounding_slack);
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(steps));
}

}  // namespace

StepShares take_step_shares(std::string& ini_text, std::vector<Option>& overrides, const std::string& source) {
  StepShares shares;
  std::vector<std::string> lines;
  std::istringstream text(ini_text);
  for (std::string line; std::getline(text, line);) lines.push_back(line);
  bool is_changed = false;
  for (const IniLine& line : read_ini(ini_text, source)) {
    if (line.name.empty() || !take(shares, line.name, line.value)) continue;
    lines.at(line.number - 1).clear();  // the others keep their numbers
    is_changed = true;
  }
  if (is_changed) {
    ini_text.clear();
    for (const std::string& line : lines) ini_text += line + '\n';
  }
  std::erase_if(overrides, [&](const Option& option) { return take(shares, option.name, option.value.value_or("")); });
  return shares;
}

StepShares take_step_shares(std::vector<std::vector<PlacedOption>>& sources) {
  StepShares shares;
  for (std::vector<PlacedOption>& source : sources) {
    std::erase_if(source, [&](const PlacedOption& setting) {
      return take(shares, setting.option.name, setting.option.value.value_or(""));
    });
  }
  return shares;
}

void apply_step_shares(const StepShares& shares, std::int64_t num_steps, Config& config) {
  if (shares.save_steps) config.checkpoint.save_steps = steps_of(*shares.save_steps, num_steps);
  if (shares.eval_steps) config.train.eval_steps = steps_of(*shares.eval_steps, num_steps);
  if (shares.logging_steps) config.train.logging_steps = steps_of(*shares.logging_steps, num_steps);
}

std::string to_ini(const StepShares& shares) {
  std::string text;
  if (shares.save_steps) text += fmt::format("[checkpoint]\nsave_steps = {}\n", *shares.save_steps);
  if (shares.eval_steps) text += fmt::format("[train]\neval_steps = {}\n", *shares.eval_steps);
  if (shares.logging_steps) text += fmt::format("[train]\nlogging_steps = {}\n", *shares.logging_steps);
  return text;
}

}  // namespace sft::config
