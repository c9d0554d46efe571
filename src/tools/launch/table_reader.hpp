// SPDX-License-Identifier: Apache-2.0
#pragma once
// Reads the settings of a map one by one: those that a program's own reader knows, then those of its tables.

#include <string>

#include "launch/key_table.hpp"

namespace sft::launch {

class TableReader {
 public:
  TableReader(const TableReader&) = delete;
  TableReader& operator=(const TableReader&) = delete;
  virtual ~TableReader() = default;

 protected:
  /// All of them outlive the reader.
  TableReader(const KeyTable& table, const YAML::Node& map, const std::string& path, ForeignFile& file)
      : table_(table), map_(map), path_(path), file_(file) {}

  /// Adds what all settings of the map say, in their order.
  void read_entries();
  /// Adds what needs more than another name. Whether the entry does.
  virtual bool add_special(const Entry& entry) = 0;
  /// Adds what neither add_special() nor the tables know: a refusal, with the nearest name.
  virtual void add_unknown(const Entry& entry);

  /// The text of a value of the map; `otherwise` where it has none, or null.
  [[nodiscard]] std::string value_of(const char* name, const char* otherwise = "none") const;
  /// Whether the map has a value other than none and false.
  [[nodiscard]] bool is_on(const char* name) const;
  /// The number of the map; `otherwise` where it has none, or no number, which is refused under its own name.
  [[nodiscard]] double number_of(const char* name, double otherwise) const;

  void add_as(const Entry& entry, const char* name, const std::string& value);
  /// Adds the setting where the entry is on; true.
  bool add_where_on(const Entry& entry, const char* name, const std::string& value);
  /// Refuses the entry unless it is taken; true.
  bool refuse_unless(bool is_taken, const Entry& entry, const char* why, const char* what_to_do);
  /// Adds a note where the entry is on; true.
  bool note(const Entry& entry, const std::string& what);
  /// Adds what the program has where its file does not say otherwise.
  void set_default(const char* name, const std::string& value);

  // NOLINTBEGIN(*-non-private-member-variables-in-classes): readers are made of them
  const KeyTable& table_;
  const YAML::Node& map_;
  const std::string& path_;
  ForeignFile& file_;
  // NOLINTEND(*-non-private-member-variables-in-classes)
};

}  // namespace sft::launch
