// SPDX-License-Identifier: Apache-2.0
#include "config/names.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "config/foreign_names.hpp"
#include "config/nearest.hpp"
#include "config/quoting.hpp"
#include "config/values.hpp"
#include "sft/config/unknown_option.hpp"
#include "sft/core/error.hpp"

namespace sft::config {

namespace {

/// Words of the command line of sft that are no keys.
const std::vector<std::string> command_words{"help", "version", "print-config", "dry-run", "json", "num_ranks"};

/// "`a`, `b` or `c`"
std::string alternatives(const std::vector<const Key*>& found) {
  std::string text;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (i > 0) text += i + 1 == found.size() ? " or " : ", ";
    text += "`" + found[i]->full_name() + "`";
  }
  return text;
}

/// The keys of a name without its section. Accelerate's files put fsdp_ or parallelism_config_ before some.
std::vector<const Key*> candidates_for(const std::string& name) {
  std::vector<const Key*> found = keys_named(name);
  for (const std::string_view prefix : {"fsdp_", "parallelism_config_"}) {
    if (found.empty() && name.starts_with(prefix)) found = keys_named(name.substr(prefix.size()));
  }
  return found;
}

[[noreturn]] void refuse_misplaced(const Written& written, const std::vector<const Key*>& found) {
  throw_config_error("unknown key `" + written.full_name() + "` " + written.place,
                     "`" + found.front()->name + "` belongs to [" + found.front()->section + "]",
                     "write " + alternatives(found));
}

[[noreturn]] void refuse_unknown(const Written& written) {
  std::vector<std::string> names;
  std::vector<std::string> siblings;
  for (const Key& key : keys()) {
    names.push_back(key.name);
    if (key.section == written.section) siblings.push_back(key.name);
  }
  names.insert(names.end(), command_words.begin(), command_words.end());
  std::string guess = nearest(written.name, siblings);
  if (guess.empty()) guess = nearest(written.name, names);
  throw_config_error(
      "unknown key `" + written.full_name() + "` " + written.place,
      written.section.empty() ? "no section has such a key" : "[" + written.section + "] has no such key",
      guess.empty() ? "--help lists every key and option" : "did you mean `" + guess + "`?");
}

bool fits(const std::string& value, const char* pattern) {
  const std::string_view wanted = pattern;
  if (wanted == "*") return true;
  if (wanted == "none") return is_none(value);
  if (wanted == "true" || wanted == "false") return truth_of(value) == (wanted == "true");
  return value == wanted;
}

std::optional<Setting> obey(const ForeignName& foreign, const Written& written) {
  const std::string value = unquoted(written.value);
  for (const Accepted& accepted : foreign.accepted) {
    if (!fits(value, accepted.value)) continue;
    const std::string assignment = accepted.assignment;
    if (assignment.empty()) return std::nullopt;
    const std::size_t equals = assignment.find('=');
    const std::string text = assignment.substr(equals + 1);
    return Setting{find_key(assignment.substr(0, equals)), text == "*" ? written.value : text};
  }
  const std::string shown = value.empty() ? written.name : written.name + " = " + value;
  throw_config_error("sft does not take `" + shown + "` " + written.place, foreign.why, foreign.what_to_do);
}

}  // namespace

std::optional<Setting> setting_of(const Written& written) {
  if (!written.section.empty()) {
    if (const Key* key = find_key(written.full_name())) return Setting{key, written.value};
  }
  const std::vector<const Key*> found = candidates_for(written.name);
  // With a prefix it is a name of Accelerate's, which may stand in any section.
  const bool has_prefix = !found.empty() && found.front()->name != written.name;
  if ((written.section.empty() || has_prefix) && found.size() == 1) return Setting{found.front(), written.value};
  if (written.section.empty() && found.size() > 1) {
    throw_config_error("`" + written.name + "` " + written.place + " is ambiguous", "several sections have this key",
                       "write " + alternatives(found));
  }
  if (!found.empty()) refuse_misplaced(written, found);
  if (!written.section.empty()) require_section(written.section, written.place);
  if (const ForeignName* foreign = find_foreign_name(written.name)) return obey(*foreign, written);
  refuse_unknown(written);
}

void require_section(const std::string& section, const std::string& place) {
  const std::vector<std::string> sections = section_names();
  if (std::ranges::find(sections, section) != sections.end()) return;
  const std::string guess = nearest(section, sections);
  std::string known;
  for (const std::string& name : sections) known += (known.empty() ? "[" : ", [") + name + "]";
  throw_config_error("unknown section [" + section + "] " + place, "the sections are " + known,
                     guess.empty() ? "use one of them" : "did you mean [" + guess + "]?");
}

Written written_option(Word word) {
  if (!word.value && word.name.starts_with("no_") && takes_of(word.name.substr(3)) == Takes::truth) {
    word = {word.name.substr(3), "false"};
  }
  if (!word.value && takes_of(word.name) == Takes::truth) word.value = "true";
  const std::size_t dot = word.name.find('.');
  const bool has_section = dot != std::string::npos;
  Written written{has_section ? word.name.substr(0, dot) : "", has_section ? word.name.substr(dot + 1) : word.name,
                  word.value.value_or(""), "on the command line"};
  if (!word.value) {
    static_cast<void>(setting_of(written));  // whether there is such a name comes first
    throw_config_error("`--" + word.name + "` has no value on the command line", "another option or nothing follows it",
                       "write one after it; --" + word.name + "= sets it to nothing");
  }
  return written;
}

Takes takes_of(const std::string& name) {
  const auto is_truth = [](const char* value) {
    return std::string_view(value) == "true" || std::string_view(value) == "false";
  };
  const std::size_t dot = name.find('.');
  if (dot != std::string::npos) {
    const Key* key = find_key(name);
    return key != nullptr && key->is_flag() ? Takes::truth : Takes::value;
  }
  const std::vector<const Key*> found = candidates_for(name);
  if (!found.empty()) return found.front()->is_flag() ? Takes::truth : Takes::value;
  const ForeignName* foreign = find_foreign_name(name);
  const bool is_flag = foreign != nullptr && std::ranges::any_of(foreign->accepted, is_truth, &Accepted::value);
  return is_flag ? Takes::truth : Takes::value;
}

void refuse_unknown_option(const std::string& program, const std::string& option,
                           const std::vector<std::string>& known) {
  const std::string problem = program + " has no option --" + option;
  std::string name = option;
  std::ranges::replace(name, '-', '_');
  if (const std::string guess = nearest(option, known); !guess.empty()) {
    throw_config_error(problem, "it knows --" + guess, "did you mean --" + guess + "?");
  }
  if (program == "sft-prepare") {
    if (const ForeignName* foreign = find_foreign_name_of_prepare(name)) {
      throw_config_error(problem, foreign->why, foreign->what_to_do);
    }
    if (!candidates_for(name).empty() || find_foreign_name(name) != nullptr) {
      throw_config_error(problem, "it belongs to training", "give it to sft, in the .ini file or on its command line");
    }
  }
  throw_config_error(problem, "there is nothing like it", "see " + program + " --help");
}

}  // namespace sft::config
