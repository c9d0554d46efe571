// SPDX-License-Identifier: Apache-2.0
#include "sft/config/options.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <stdexcept>
#include <string_view>

#include "config/foreign_names.hpp"
#include "config/names.hpp"
#include "sft/core/error.hpp"
#include "sft/core/nearest.hpp"

namespace sft::config {

namespace {

/// Keys of [model] that do not describe an architecture.
constexpr std::array<std::string_view, 4> written_by_people{"model_name_or_path", "model_revision",
                                                            "router_aux_loss_coef", "init_seed"};

bool comes_with_model(const Key& key) {
  return key.section == "model" && std::ranges::find(written_by_people, key.name) == written_by_people.end();
}

}  // namespace

std::vector<KeyDescription> describe_keys() {
  const Config defaults;
  std::vector<KeyDescription> described;
  for (const Key& key : keys()) {
    described.push_back(
        {key.section, key.name, key.help, key.get(defaults), key.choices, key.is_path, comes_with_model(key)});
  }
  return described;
}

bool is_truth(const std::string& name) {
  if (name.find('.') != std::string::npos) {
    const Key* key = find_key(name);
    return key != nullptr && key->is_flag();
  }
  const std::vector<const Key*> found = keys_meant_by(name);
  if (!found.empty()) return found.front()->is_flag();
  const ForeignName* foreign = find_foreign_name(name);
  return foreign != nullptr && is_flag(*foreign);
}

void require_known(const Option& option, const std::vector<std::string>& others) {
  const bool is_negated = !option.value && option.name.starts_with("no_") && may_stand_alone(option.name.substr(3));
  if (is_negated || option.name.find('.') != std::string::npos) return;
  if (!keys_meant_by(option.name).empty() || find_foreign_name(option.name) != nullptr) return;
  refuse_unknown({"", option.name, option.value.value_or(""), "on the command line"}, others);
}

void refuse_without_value(const std::string& name) {
  throw_config_error(fmt::format("`--{}` has no value on the command line", name),
                     "another option or nothing follows it",
                     fmt::format("write one after it; --{}= sets it to nothing", name));
}

std::optional<Option> meaning_to_prepare(const Option& option, const std::vector<std::string>& known) {
  if (const ForeignName* foreign = find_foreign_name_of_prepare(option.name)) {
    const std::string value = option.value.value_or(is_flag(*foreign) ? "true" : "");
    try {
      const std::optional<Assignment> assignment =
          obey(*foreign, {option.name, value}, "sft-prepare", "on the command line");
      if (!assignment) return std::nullopt;
      return Option{assignment->name, assignment->value};
    } catch (const std::invalid_argument& expectation) {
      throw_config_error(fmt::format("the value of --{} is not valid", option.name),
                         fmt::format("expected {}", expectation.what()), "see sft-prepare --help");
    }
  }
  const bool is_of_training = !keys_meant_by(option.name).empty() || find_foreign_name(option.name) != nullptr;
  if (is_of_training && nearest(option.name, known).empty()) {
    throw_config_error(fmt::format("sft-prepare has no option --{}", option.name), "it belongs to training",
                       "give it to sft, in the .ini file or on its command line");
  }
  return option;
}

}  // namespace sft::config
