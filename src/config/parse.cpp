// SPDX-License-Identifier: Apache-2.0
#include "sft/config/parse.hpp"

#include <map>
#include <stdexcept>
#include <utility>

#include "config/ini.hpp"
#include "config/keys.hpp"
#include "config/names.hpp"
#include "sft/config/words.hpp"
#include "sft/core/error.hpp"

namespace sft::config {

namespace {

/// Sets keys of one source, each once.
class Applier {
 public:
  explicit Applier(Config& config) : config_(config) {}

  void apply(const Written& written) {
    try {
      const std::optional<Setting> setting = setting_of(written);
      if (!setting) return;
      remember(*setting->key, written);
      setting->key->set(setting->text, config_);
    } catch (const std::invalid_argument& expectation) {
      throw_config_error("`" + written.full_name() + " = " + written.value + "` " + written.place + " is not valid",
                         std::string("expected ") + expectation.what(), "correct it; --help lists every key");
    }
  }

 private:
  void remember(const Key& key, const Written& written) {
    const auto [first, is_new] = seen_.emplace(key.full_name(), written.full_name());
    if (is_new) return;
    if (first->second == written.full_name()) {
      throw_config_error("`" + written.full_name() + "` is given twice, the second time " + written.place,
                         "one of the two would be ignored", "keep one of them");
    }
    throw_config_error(
        "`" + written.full_name() + "` " + written.place + " and `" + first->second + "` before it set the same key",
        "both mean " + key.full_name(), "keep one of them");
  }

  Config& config_;
  std::map<std::string, std::string> seen_;  // full name of a key, and what was written for it
};

void apply_file(const std::string& ini_text, const std::string& source, Config& config) {
  Applier applier(config);
  for (const IniLine& line : read_ini(ini_text, source)) {
    const std::string place = "in " + place_of(source, line.number);
    if (line.name.empty()) {
      require_section(line.section, place);
    } else {
      applier.apply({line.section, line.name, line.value, place});
    }
  }
}

void apply_overrides(const std::vector<std::string>& overrides, Config& config) {
  Applier applier(config);
  for (const Word& word : split_words(overrides, takes_of)) {
    ensure(!word.name.empty(), "overrides are options and their values");
    applier.apply(written_option(word));
  }
}

}  // namespace

Config parse(const std::string& ini_text, const std::vector<std::string>& overrides, const std::string& source) {
  return parse(ini_text, overrides, source, {});
}

Config parse(const std::string& ini_text, const std::vector<std::string>& overrides, const std::string& source,
             const Config& base) {
  Config config = base;
  apply_file(ini_text, source, config);
  apply_overrides(overrides, config);
  return config;
}

std::string to_ini(const Config& config) {
  std::string text;
  std::string section;
  for (const Key& key : keys()) {
    if (key.section != section) text += (section.empty() ? "[" : "\n[") + key.section + "]\n";
    section = key.section;
    const std::string value = key.get(config);
    text += key.name + (value.empty() ? " =" : " = ") + value + "\n";
  }
  return text;
}

std::vector<Difference> differences(const Config& before, const Config& now) {
  std::vector<Difference> found;
  for (const Key& key : keys()) {
    std::string old_value = key.get(before);
    std::string new_value = key.get(now);
    if (old_value != new_value) found.push_back({key.section, key.name, std::move(old_value), std::move(new_value)});
  }
  return found;
}

}  // namespace sft::config
