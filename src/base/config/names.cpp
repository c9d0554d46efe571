// SPDX-License-Identifier: Apache-2.0
#include "config/names.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <string_view>
#include <vector>

#include "config/foreign_names.hpp"
#include "sft/core/error.hpp"
#include "sft/core/nearest.hpp"

namespace sft::config {

namespace {

/// "`a`, `b` or `c`"
std::string alternatives(const std::vector<const Key*>& found) {
  std::string text;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (i > 0) text += i + 1 == found.size() ? " or " : ", ";
    text += fmt::format("`{}`", found[i]->full_name());
  }
  return text;
}

[[noreturn]] void refuse_misplaced(const Written& written, const std::vector<const Key*>& found) {
  throw_config_error(fmt::format("unknown key `{}` {}", written.full_name(), written.place),
                     fmt::format("`{}` belongs to [{}]", found.front()->name, found.front()->section),
                     fmt::format("write {}", alternatives(found)));
}

/// The foreign name that `word` is a slip of the pen for, and what to write in its place; empty: there is none.
std::string foreign_guess(const std::string& word) {
  const std::string guess = nearest(word, foreign_names());
  if (guess.size() < 5) return {};
  const ForeignName& foreign = *find_foreign_name(guess);
  const bool is_refused = foreign.accepted.empty();
  return fmt::format("did you mean `{}`?{}{}", guess, is_refused ? " Then " : "", is_refused ? foreign.what_to_do : "");
}

}  // namespace

void refuse_unknown(const Written& written, const std::vector<std::string>& others) {
  std::vector<std::string> names;
  std::vector<std::string> siblings;
  for (const Key& key : keys()) {
    names.push_back(key.name);
    if (key.section == written.section) siblings.push_back(key.name);
  }
  names.insert(names.end(), others.begin(), others.end());
  std::string guess = nearest(written.name, siblings);
  if (guess.empty()) guess = nearest(written.name, names);
  std::string advice = guess.empty() ? foreign_guess(written.name) : fmt::format("did you mean `{}`?", guess);
  if (advice.empty()) advice = "--help lists every key and option";
  throw_config_error(
      fmt::format("unknown key `{}` {}", written.full_name(), written.place),
      written.section.empty() ? "no section has such a key" : fmt::format("[{}] has no such key", written.section),
      advice);
}

std::vector<const Key*> keys_meant_by(const std::string& name) {
  std::vector<const Key*> found = keys_named(name);
  for (const std::string_view prefix : {"fsdp_", "parallelism_config_"}) {
    if (found.empty() && name.starts_with(prefix)) found = keys_named(name.substr(prefix.size()));
  }
  return found;
}

namespace {

bool is_section(const std::string& section) {
  const std::vector<std::string> sections = section_names();
  return std::ranges::find(sections, section) != sections.end();
}

/// What a foreign name sets.
std::optional<Setting> obeyed(const ForeignName& foreign, const Written& written) {
  const std::optional<Assignment> assignment = obey(foreign, {written.name, written.value}, "sft", written.place);
  if (!assignment) return std::nullopt;
  return Setting{find_key(assignment->name), assignment->value};
}

}  // namespace

std::optional<Setting> setting_of(const Written& written) {
  if (!written.section.empty()) {
    if (const Key* key = find_key(written.full_name())) return Setting{key, written.value};
  }
  const std::vector<const Key*> found = keys_meant_by(written.name);
  if (!written.section.empty() && !is_section(written.section)) {
    if (!found.empty()) refuse_misplaced(written, found);
    require_section(written.section, written.place);
  }
  if (!found.empty() && found.front()->name != written.name) {  // with a prefix of Accelerate's
    if (const ForeignName* exact = find_exact_foreign_name(written.name)) return obeyed(*exact, written);
  }
  if (found.size() == 1) return Setting{found.front(), written.value};
  if (written.section.empty() && found.size() > 1) {
    throw_config_error(fmt::format("`{}` {} is ambiguous", written.name, written.place),
                       "several sections have this key", fmt::format("write {}", alternatives(found)));
  }
  if (!found.empty()) refuse_misplaced(written, found);
  if (const ForeignName* foreign = find_foreign_name(written.name)) return obeyed(*foreign, written);
  refuse_unknown(written, {});
}

void require_section(const std::string& section, const std::string& place) {
  if (is_section(section)) return;
  const std::vector<std::string> sections = section_names();
  const std::string guess = nearest(section, sections);
  throw_config_error(fmt::format("unknown section [{}] {}", section, place),
                     fmt::format("the sections are [{}]", fmt::join(sections, "], [")),
                     guess.empty() ? "use one of them" : fmt::format("did you mean [{}]?", guess));
}

bool may_stand_alone(const std::string& name) {
  if (is_truth(name)) return true;
  const std::vector<const Key*> found =
      name.find('.') != std::string::npos ? std::vector<const Key*>{find_key(name)} : keys_meant_by(name);
  if (found.empty()) {
    const ForeignName* foreign = find_foreign_name(name);
    return foreign != nullptr && std::ranges::any_of(foreign->accepted, [](const Accepted& accepted) {
             return std::string_view(accepted.value) == "true";
           });
  }
  return found.size() == 1 && found.front() != nullptr && found.front()->may_stand_alone;
}

Written written_option(Option option) {
  if (!option.value && option.name.starts_with("no_") && may_stand_alone(option.name.substr(3))) {
    option = {option.name.substr(3), "false"};
  }
  if (!option.value && may_stand_alone(option.name)) option.value = "true";
  const std::size_t dot = option.name.find('.');
  const bool has_section = dot != std::string::npos;
  Written written{has_section ? option.name.substr(0, dot) : "",
                  has_section ? option.name.substr(dot + 1) : option.name, option.value.value_or(""),
                  "on the command line"};
  if (!option.value) {
    static_cast<void>(setting_of(written));  // whether there is such a name comes first
    refuse_without_value(option.name);
  }
  return written;
}

}  // namespace sft::config
