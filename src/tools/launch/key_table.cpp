// SPDX-License-Identifier: Apache-2.0
#include "launch/key_table.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <sstream>

#include "sft/config/values.hpp"
#include "sft/core/nearest.hpp"

namespace sft::launch {

namespace {

std::vector<std::string> names_in(const std::string& list) {
  std::istringstream words(list);
  return {std::istream_iterator<std::string>(words), {}};
}

}  // namespace

std::vector<Entry> entries_of(const YAML::Node& map, const std::string& path) {
  std::vector<Entry> entries;
  for (const auto& item : map) {
    entries.push_back({item.first.as<std::string>(), item.second, text_of(item.second), place_of(item.first, path)});
  }
  return entries;
}

bool has_name(const std::string& list, const std::string& word) {
  return std::ranges::any_of(names_in(list), [&](std::string name) {
    if (!name.ends_with('*')) return name == word;
    name.pop_back();
    return word.starts_with(name);
  });
}

bool is_off(const Entry& entry) {
  const bool is_empty = !entry.node.IsScalar() && entry.node.size() == 0;
  return is_empty || config::is_none(entry.value) || config::truth_of(entry.value) == false;
}

void refuse(const Entry& entry, const std::string& why, const std::string& what_to_do, ForeignFile& file) {
  file.refused.push_back(
      refusal(fmt::format("sft does not take `{}: {}` {}", entry.name, entry.value, entry.place), why, what_to_do));
}

bool add_by_table(const KeyTable& table, const Entry& entry, ForeignFile& file) {
  for (const Meaning& meaning : table.renamed) {
    if (!has_name(meaning.names, entry.name)) continue;
    if (!config::is_none(entry.value)) add(file, meaning.to, entry.value, entry.place);
    return true;
  }
  if (has_name(table.same, entry.name)) {
    if (!config::is_none(entry.value) || entry.value == "false") add(file, entry.name, entry.value, entry.place);
    return true;
  }
  if (has_name(table.harmless, entry.name)) return true;
  for (const Impossible& impossible : table.impossible) {
    if (!has_name(impossible.names, entry.name)) continue;
    if (!is_off(entry)) refuse(entry, impossible.why, impossible.what_to_do, file);
    return true;
  }
  return is_off(entry);
}

void refuse_unknown(const KeyTable& table, const Entry& entry, ForeignFile& file) {
  std::vector<std::string> known = names_in(fmt::format("{} {}", table.same, table.harmless));
  for (const Meaning& meaning : table.renamed) known.emplace_back(meaning.names);
  const std::string guess = nearest(entry.name, known);
  refuse(entry, fmt::format("nothing here does what {} does with it", table.program),
         guess.empty() ? "leave it out" : fmt::format("leave it out; or did you mean {}?", guess), file);
}

void add_default(const char* program, const std::string& name, const std::string& value, ForeignFile& file) {
  const bool is_given =
      std::ranges::any_of(file.settings, [&](const auto& setting) { return setting.option.name == name; });
  if (!is_given) add(file, name, value, fmt::format("by {}'s default", program));
}

std::string note_on_template(const Entry& entry) {
  return fmt::format(
      "{} {} {}: conversations are written by the chat template of the model's folder, which may say something else; "
      "--chat_template_path FILE gives another one",
      entry.name, entry.value, entry.place);
}

void drop_repeated(ForeignFile& file) {
  std::vector<config::PlacedOption> kept;
  for (const config::PlacedOption& setting : file.settings) {
    const bool is_said = std::ranges::any_of(kept, [&](const config::PlacedOption& other) {
      return other.option.name == setting.option.name && other.option.value == setting.option.value;
    });
    if (!is_said) kept.push_back(setting);
  }
  file.settings = std::move(kept);
}

void SharedOptions::begin(const std::string& place) { all_.push_back({place, {}}); }

void SharedOptions::set(const std::string& name, const std::string& value) {
  std::string& whole = all_.back().values[name];
  const bool is_list = name == "rename" || name == "ignore_fields";
  whole = is_list && !whole.empty() ? fmt::format("{},{}", whole, value) : value;
}

void SharedOptions::finish(ForeignFile& file) const {
  if (all_.empty()) return;
  const Options& first = all_.front();
  for (const Options& other : all_) {
    if (other.values == first.values) continue;
    file.refused_data.push_back(refusal(
        fmt::format("the data sets {} and {} are read in two ways", first.place, other.place),
        "sft-prepare reads all of its inputs in one", "name one of them, or write the records of both in one shape"));
    return;
  }
  for (const auto& [name, value] : first.values) add(file, name, value, first.place);
}

}  // namespace sft::launch
