// SPDX-License-Identifier: Apache-2.0
#pragma once
// How a program's names of settings become those of TRL and sft: by tables of names, and the defaults of that program.

#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "launch/yaml.hpp"

namespace sft::launch {

/// Names, separated by blanks, of one setting here, with the same value.
struct Meaning {
  const char* names;
  const char* to;
};

/// Names, separated by blanks, that are refused unless they are off; NAME* stands for all that begin so.
struct Impossible {
  const char* names;
  const char* why;
  const char* what_to_do;
};

struct KeyTable {
  const char* program;
  std::span<const Meaning> renamed;
  const char* same;  ///< names that mean the same here
  /// Keys that change neither rows nor values beyond rounding, or name services that nothing is sent to.
  const char* harmless;
  std::span<const Impossible> impossible;
};

/// A setting of a file, as it stands there.
struct Entry {
  std::string name;
  YAML::Node node;
  std::string value;  ///< text_of(node)
  std::string place;  ///< "in FILE:LINE"
};

/// All settings of a map, in their order.
[[nodiscard]] std::vector<Entry> entries_of(const YAML::Node& map, const std::string& path);

/// Whether the word is in a list separated by blanks, or begins as a NAME* of it.
[[nodiscard]] bool has_name(const std::string& list, const std::string& word);

/// Whether the value says nothing: none, false, or an empty list or map.
[[nodiscard]] bool is_off(const Entry& entry);

/// Adds the refusal of an entry.
void refuse(const Entry& entry, const std::string& why, const std::string& what_to_do, ForeignFile& file);

/// Adds what the tables say of an entry. Whether they have its name; what is off in a name that they do not have needs
/// none.
bool add_by_table(const KeyTable& table, const Entry& entry, ForeignFile& file);

/// Adds the refusal of a name that nothing knows, with the name of the tables that is nearest.
void refuse_unknown(const KeyTable& table, const Entry& entry, ForeignFile& file);

/// Adds a setting that a program has where its file does not say otherwise: unless one of this name was added.
void add_default(const char* program, const std::string& name, const std::string& value, ForeignFile& file);

/// Drops settings that say the same a second time, as a file and the file of DeepSpeed that it names do.
void drop_repeated(ForeignFile& file);

/// The note on a chat template that is named, where the model's own is taken.
[[nodiscard]] std::string note_on_template(const Entry& entry);

/// Options of sft-prepare that data sets of one file ask for. One call prepares all of them, so they have to agree.
class SharedOptions {
 public:
  /// Options of the next data set; `place` is its own, for refusals.
  void begin(const std::string& place);
  void set(const std::string& name, const std::string& value);
  /// Adds them, or a refusal of data where data sets differ.
  void finish(ForeignFile& file) const;

 private:
  struct Options {
    std::string place;
    std::map<std::string, std::string> values;
  };
  std::vector<Options> all_;
};

}  // namespace sft::launch
