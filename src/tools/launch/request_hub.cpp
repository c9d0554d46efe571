// SPDX-License-Identifier: Apache-2.0
// Settings of the hub in a request, and how settings are read and refused.

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <set>

#include "launch/request_parts.hpp"
#include "launch/yaml.hpp"
#include "sft/config/values.hpp"

namespace sft::launch {

using config::PlacedOption;

namespace {

/// Whether the text is [OWNER/]NAME.
bool is_repository(const std::string& text) {
  const auto is_of_name = [](unsigned char c) { return std::isalnum(c) != 0 || c == '-' || c == '_' || c == '.'; };
  const auto slash = static_cast<std::size_t>(std::ranges::find(text, '/') - text.begin());
  const std::string owner = text.substr(0, slash), name = slash < text.size() ? text.substr(slash + 1) : "";
  const bool has_name = slash == text.size() || (!owner.empty() && !name.empty());
  return has_name && std::ranges::all_of(owner, is_of_name) && std::ranges::all_of(name, is_of_name);
}

}  // namespace

std::string value_of(const PlacedOption& setting) { return setting.option.value.value_or("true"); }

void refuse_setting(Request& request, const PlacedOption& setting, const char* why, const std::string& what_to_do) {
  request.refused.push_back(refusal(
      fmt::format("sft-launch does not take `{} = {}` {}", setting.option.name, value_of(setting), setting.place), why,
      what_to_do));
}

void read_truth(Request& request, const PlacedOption& setting, const std::function<void(bool)>& take) {
  const std::optional<bool> truth = config::truth_of(value_of(setting));
  if (truth) return take(*truth);
  if (!config::is_none(value_of(setting))) {
    refuse_setting(request, setting, "it is true or false", "correct it, or leave it out");
  }
}

bool take_hub(Request& request, const PlacedOption& setting) {
  const std::string& name = setting.option.name;
  const std::string value = config::is_none(value_of(setting)) ? "" : value_of(setting);
  HubUpload& hub = request.hub;
  if (name == "push_to_hub") {
    read_truth(request, setting, [&](bool is_wanted) { hub.is_wanted = is_wanted; });
  } else if (name == "hub_private_repo") {
    read_truth(request, setting, [&](bool is_private) { hub.has_private_repo = is_private; });
  } else if (name == "hub_model_id" || name == "push_to_hub_model_id") {
    if (!value.empty() && !is_repository(value)) {
      refuse_setting(request, setting, "a repository of the hub is OWNER/NAME, of letters, digits, `-`, `_` and `.`",
                     "correct it");
    }
    hub.model_id = value;
  } else if (name == "hub_strategy") {
    static const std::set<std::string> strategies{"", "end", "every_save", "checkpoint", "all_checkpoints"};
    if (!strategies.contains(value)) {
      refuse_setting(request, setting, "it is end, every_save, checkpoint or all_checkpoints",
                     "correct it, or leave it out");
    }
    if (!value.empty()) hub.strategy = value;
  } else if (name == "hub_revision" || name == "hub_model_revision") {
    hub.revision = value;
  } else if (name == "hub_token" || name == "push_to_hub_token") {
    hub.token = value;
  } else {
    return name == "hub_always_push";
  }
  return true;
}

}  // namespace sft::launch
