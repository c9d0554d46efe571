// SPDX-License-Identifier: Apache-2.0
#include "launch/table_reader.hpp"

#include <fmt/format.h>
#include <stdexcept>

#include "sft/config/values.hpp"

namespace sft::launch {

void TableReader::read_entries() {
  for (const Entry& entry : entries_of(map_, path_)) {
    if (!add_special(entry) && !add_by_table(table_, entry, file_)) add_unknown(entry);
  }
}

void TableReader::add_unknown(const Entry& entry) { refuse_unknown(table_, entry, file_); }

std::string TableReader::value_of(const char* name, const char* otherwise) const {
  const YAML::Node node = map_[name];
  return node && !node.IsNull() ? text_of(node) : otherwise;
}

bool TableReader::is_on(const char* name) const {
  const std::string value = value_of(name);
  return !config::is_none(value) && config::truth_of(value) != false;
}

double TableReader::number_of(const char* name, double otherwise) const {
  double number = otherwise;
  try {
    if (is_on(name)) config::read(value_of(name), number);
  } catch (const std::invalid_argument&) {  // is refused under its own name
  }
  return number;
}

void TableReader::add_as(const Entry& entry, const char* name, const std::string& value) {
  add(file_, name, value, entry.place);
}

bool TableReader::add_where_on(const Entry& entry, const char* name, const std::string& value) {
  if (!is_off(entry)) add_as(entry, name, value);
  return true;
}

bool TableReader::refuse_unless(bool is_taken, const Entry& entry, const char* why, const char* what_to_do) {
  if (!is_taken) refuse(entry, why, what_to_do, file_);
  return true;
}

bool TableReader::note(const Entry& entry, const std::string& what) {
  if (!is_off(entry)) file_.notes.push_back(fmt::format("{} {}: {}", entry.name, entry.place, what));
  return true;
}

void TableReader::set_default(const char* name, const std::string& value) {
  add_default(table_.program, name, value, file_);
}

}  // namespace sft::launch
