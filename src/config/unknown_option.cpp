// SPDX-License-Identifier: Apache-2.0
#include "sft/config/unknown_option.hpp"

#include "config/foreign_names.hpp"
#include "config/names.hpp"
#include "config/nearest.hpp"
#include "sft/core/error.hpp"

namespace sft::config {

std::optional<Word> meaning_of_unknown_option(const std::string& program, const Word& option,
                                              const std::vector<std::string>& known) {
  const bool is_prepare = program == "sft-prepare";
  if (const ForeignName* foreign = is_prepare ? find_foreign_name_of_prepare(option.name) : nullptr) {
    const std::string value = option.value.value_or(is_flag(*foreign) ? "true" : "");
    const std::optional<Assignment> assignment = obey(*foreign, {option.name, value}, program, "on the command line");
    if (!assignment) return std::nullopt;
    return Word{assignment->name, assignment->value};
  }
  const std::string problem = program + " has no option --" + option.name;
  if (const std::string guess = nearest(option.name, known); !guess.empty()) {
    throw_config_error(problem, "it knows --" + guess, "did you mean --" + guess + "?");
  }
  if (is_prepare && (!keys_meant_by(option.name).empty() || find_foreign_name(option.name) != nullptr)) {
    throw_config_error(problem, "it belongs to training", "give it to sft, in the .ini file or on its command line");
  }
  throw_config_error(problem, "there is nothing like it", "see " + program + " --help");
}

}  // namespace sft::config
