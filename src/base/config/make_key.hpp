// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a key of a kind is read and written: what the table of keys (keys.cpp) is made of.

#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "config/keys.hpp"
#include "config/quoting.hpp"
#include "sft/config/values.hpp"

namespace sft::config {

/// What optim may be: "adamw_torch, lion (one moment) or sgd (no state)".
[[nodiscard]] std::string optimizers_text();

/// A number of ranks in [parallel], from 1.
[[nodiscard]] Key ranks_key(const char* name, int Parallel::*field, const char* help);

/// A number of ranks in [parallel], or "auto" for what follows from other keys.
[[nodiscard]] Key ranks_or_auto_key(const char* name, int Parallel::*field, const char* help);

/// reshard_after_forward: a truth, or the number of ranks that keep units whole.
[[nodiscard]] Key reshard_key(const char* help);

/// activation_checkpointing, which is a flag elsewhere.
[[nodiscard]] Key checkpointing_key(const char* help);

/// fsdp_units: block, parts, or a number of blocks.
[[nodiscard]] Key fsdp_units_key(const char* help);

/// resume_from_checkpoint: none, auto or a path; a truth as in TRL.
[[nodiscard]] Key resume_key(const char* help);

/// eval_files: as train_files, or none.
[[nodiscard]] Key eval_files_key(const char* help);

/// Whether a text leaves a truth open, which "no" and "false" do not.
[[nodiscard]] bool is_no_truth(const std::string& text);

/// eval_steps: a count, or none for that of logging_steps; "no" is 0.
[[nodiscard]] Key eval_steps_key(const char* help);

/// save_hub_model: true, false, every_save, or "auto" for what the start of the run suggests.
[[nodiscard]] Key save_hub_model_key(const char* help);

/// A key that is stored in `field` of `part`.
template <class Part, class Value>
Key key(const char* section, Part Config::*part, const char* name, Value Part::*field, std::string help) {
  return {section,
          name,
          std::move(help),
          choices(Value{}),
          /*is_path=*/false,
          [=](const std::string& text, Config& config) { read(text, config.*part.*field); },
          [=](const Config& config) { return write(config.*part.*field); }};
}

/// The same for a number from `least` on, which is what `rule` says.
template <class Part, class Value>
Key key(const char* section, Part Config::*part, const char* name, Value Part::*field, std::string help,
        std::type_identity_t<Value> least, const char* rule) {
  Key number = key(section, part, name, field, std::move(help));
  number.is_allowed = [=](const Config& config) { return config.*part.*field >= least; };
  number.rule = rule;
  return number;
}

/// A key for files or folders.
template <class Part, class Value>
Key path_key(const char* section, Part Config::*part, const char* name, Value Part::*field, const char* help) {
  Key path = key(section, part, name, field, help);
  path.is_path = true;
  return path;
}

/// A number that may also be written none, for 0.
template <class Part, class Value>
Key number_or_none_key(const char* section, Part Config::*part, const char* name, Value Part::*field,
                       const char* help) {
  Key number = key(section, part, name, field, help);
  number.set = [=](const std::string& text, Config& config) {
    config.*part.*field = 0;
    if (!is_none(unquoted(text))) read(text, config.*part.*field);
  };
  return number;
}

/// A value that may be none, which other keys then decide. `none`: whether a text stands for that.
template <class Value>
Key optional_key(const char* name, std::optional<Value> Train::*field, bool (*none)(const std::string& text),
                 const char* help) {
  std::vector<std::string> texts = choices(Value{});
  texts.insert(texts.begin(), "none");
  return {"train",
          name,
          help,
          texts,
          /*is_path=*/false,
          [=](const std::string& text, Config& config) {
            (config.train.*field).reset();
            if (none(unquoted(text))) return;
            Value value{};
            read(text, value);
            config.train.*field = value;
          },
          [=](const Config& config) {
            const std::optional<Value>& value = config.train.*field;
            return value ? write(*value) : std::string("none");
          }};
}

/// A number from `least` on, or "auto" for what something else decides; `rule` says so.
template <class Part, class Value>
Key number_or_auto_key(const char* section, Part Config::*part, const char* name, std::optional<Value> Part::*field,
                       const char* help, std::type_identity_t<Value> least, const char* rule) {
  Key number{section,
             name,
             help,
             {},
             /*is_path=*/false,
             [=](const std::string& text, Config& config) {
               std::optional<Value> choice;
               if (unquoted(text) != "auto") read(text, choice.emplace());
               config.*part.*field = choice;
             },
             [=](const Config& config) {
               const std::optional<Value>& choice = config.*part.*field;
               return choice ? write(*choice) : std::string("auto");
             }};
  number.is_allowed = [=](const Config& config) { return (config.*part.*field).value_or(least) >= least; };
  number.rule = rule;
  return number;
}

/// A truth, or "auto" for what something else decides.
template <class Part>
Key truth_or_auto_key(const char* section, Part Config::*part, const char* name, std::optional<bool> Part::*field,
                      const char* help) {
  return {section,
          name,
          help,
          {"auto", "true", "false"},
          /*is_path=*/false,
          [=](const std::string& text, Config& config) {
            const std::string word = unquoted(text);
            const std::optional<bool> truth = truth_of(word);
            if (!truth && word != "auto") throw std::invalid_argument("auto, true or false");
            config.*part.*field = truth;
          },
          [=](const Config& config) {
            const std::optional<bool>& choice = config.*part.*field;
            return choice ? write(*choice) : std::string("auto");
          }};
}

}  // namespace sft::config
