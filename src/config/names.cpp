// SPDX-License-Identifier: Apache-2.0
#include "config/names.hpp"

#include <algorithm>
#include <string_view>
#include <vector>

#include "config/foreign_names.hpp"
#include "config/nearest.hpp"
#include "sft/core/error.hpp"

namespace sft::config {

namespace {

/// Words of the command line of sft that are no keys.
const std::vector<std::string> command_words{"help", "version",   "print-config", "dry-run",
                                             "json", "num_ranks", "check"};

/// "`a`, `b` or `c`"
std::string alternatives(const std::vector<const Key*>& found) {
  std::string text;
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (i > 0) text += i + 1 == found.size() ? " or " : ", ";
    text += "`" + found[i]->full_name() + "`";
  }
  return text;
}

[[noreturn]] void refuse_misplaced(const Written& written, const std::vector<const Key*>& found) {
  throw_config_error("unknown key `" + written.full_name() + "` " + written.place,
                     "`" + found.front()->name + "` belongs to [" + found.front()->section + "]",
                     "write " + alternatives(found));
}

/// The foreign name that `word` is a slip of the pen for, and what to write in its place; empty: there is none.
std::string foreign_guess(const std::string& word) {
  const std::string guess = nearest(word, foreign_names());
  if (guess.size() < 5) return {};
  const ForeignName& foreign = *find_foreign_name(guess);
  const bool is_refused = foreign.accepted.empty();
  return "did you mean `" + guess + "`?" + (is_refused ? std::string(" Then ") + foreign.what_to_do : "");
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
  std::string advice = guess.empty() ? foreign_guess(written.name) : "did you mean `" + guess + "`?";
  if (advice.empty()) advice = "--help lists every key and option";
  throw_config_error(
      "unknown key `" + written.full_name() + "` " + written.place,
      written.section.empty() ? "no section has such a key" : "[" + written.section + "] has no such key", advice);
}

}  // namespace

std::vector<const Key*> keys_meant_by(const std::string& name) {
  std::vector<const Key*> found = keys_named(name);
  for (const std::string_view prefix : {"fsdp_", "parallelism_config_"}) {
    if (found.empty() && name.starts_with(prefix)) found = keys_named(name.substr(prefix.size()));
  }
  return found;
}

std::optional<Setting> setting_of(const Written& written) {
  if (!written.section.empty()) {
    if (const Key* key = find_key(written.full_name())) return Setting{key, written.value};
  }
  const std::vector<const Key*> found = keys_meant_by(written.name);
  // With a prefix it is a name of Accelerate's, which may stand in any section.
  const bool has_prefix = !found.empty() && found.front()->name != written.name;
  if ((written.section.empty() || has_prefix) && found.size() == 1) return Setting{found.front(), written.value};
  if (written.section.empty() && found.size() > 1) {
    throw_config_error("`" + written.name + "` " + written.place + " is ambiguous", "several sections have this key",
                       "write " + alternatives(found));
  }
  if (!found.empty()) refuse_misplaced(written, found);
  if (!written.section.empty()) require_section(written.section, written.place);
  if (const ForeignName* foreign = find_foreign_name(written.name)) {
    const std::optional<Assignment> assignment = obey(*foreign, {written.name, written.value}, "sft", written.place);
    if (!assignment) return std::nullopt;
    return Setting{find_key(assignment->name), assignment->value};
  }
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
  const std::size_t dot = name.find('.');
  if (dot != std::string::npos) {
    const Key* key = find_key(name);
    return key != nullptr && key->is_flag() ? Takes::truth : Takes::value;
  }
  const std::vector<const Key*> found = keys_meant_by(name);
  if (!found.empty()) return found.front()->is_flag() ? Takes::truth : Takes::value;
  const ForeignName* foreign = find_foreign_name(name);
  return foreign != nullptr && is_flag(*foreign) ? Takes::truth : Takes::value;
}

}  // namespace sft::config
