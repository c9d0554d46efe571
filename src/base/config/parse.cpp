// SPDX-License-Identifier: Apache-2.0
#include "sft/config/parse.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

#include "config/composed.hpp"
#include "config/foreign_precision.hpp"
#include "config/keys.hpp"
#include "config/names.hpp"
#include "config/refusals.hpp"
#include "sft/config/ini.hpp"
#include "sft/config/keys_given.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"

namespace sft::config {

namespace {

/// Whether the setting leaves its key open: null, as Python's None, of a key that has no such value.
bool is_open(const Setting& setting) {
  if (!is_null(setting.text)) return false;
  Config scratch;
  try {
    setting.key->set(setting.text, scratch);
  } catch (const std::invalid_argument&) {
    return true;
  }
  return setting.key->is_path && setting.key->get(scratch) == setting.text;
}

/// Sets keys of one source, each once; names that say the same are one.
class Applier {
 public:
  explicit Applier(Config& config) : config_(config) {}

  void apply(const Written& written) {
    try {
      const std::optional<Setting> setting = setting_of(written);
      if (!setting || is_open(*setting)) return;
      const std::string before = setting->key->get(config_);
      setting->key->set(setting->text, config_);
      remember(*setting->key, written, /*is_same=*/setting->key->get(config_) == before);
    } catch (const std::invalid_argument& expectation) {
      throw_config_error(fmt::format("`{} = {}` {} is not valid", written.full_name(), written.value, written.place),
                         fmt::format("expected {}", expectation.what()), "correct it; --help lists every key");
    }
  }

 private:
  /// `is_same`: the key had this value.
  void remember(const Key& key, const Written& written, bool is_same) {
    const auto [first, is_new] = seen_.emplace(key.full_name(), written.full_name());
    if (is_new || (is_same && first->second != written.full_name())) return;
    if (first->second == written.full_name()) {
      throw_config_error(fmt::format("`{}` is given twice, the second time {}", written.full_name(), written.place),
                         "one of the two would be ignored", "keep one of them");
    }
    throw_config_error(
        fmt::format("`{}` {} and `{}` before it set the same key", written.full_name(), written.place, first->second),
        fmt::format("both mean {}", key.full_name()), "keep one of them");
  }

  Config& config_;
  std::map<std::string, std::string> seen_;  // full name of a key, and what was written for it
};

void add_parts(const Written& written, std::vector<Written>& all, Refusals& refusals) {
  refusals.collect([&] {
    for (Written& part : parts_of(written)) all.push_back(std::move(part));
  });
}

std::vector<Written> written_in_file(const std::string& ini_text, const std::string& source, Refusals& refusals) {
  std::vector<Written> all;
  bool is_known = true;
  for (const IniLine& line : read_ini(ini_text, source)) {
    const std::string place = fmt::format("in {}", place_of(source, line.number));
    if (line.name.empty()) {
      is_known = false;
      refusals.collect([&] {
        require_section(line.section, place);
        is_known = true;
      });
    } else if (is_known) {  // the section was refused with all that is in it
      add_parts({line.section, line.name, line.value, place}, all, refusals);
    }
  }
  refusals.collect([&] { check_rivals(all); });
  drop_alias(all);
  add_stage_of_launcher(all);
  return all;
}

std::vector<Written> written_as_overrides(const std::vector<Option>& overrides, Refusals& refusals) {
  std::vector<Written> all;
  for (const Option& option : overrides) {
    refusals.collect([&] { add_parts(written_option(option), all, refusals); });
  }
  refusals.collect([&] { check_rivals(all); });
  drop_alias(all);
  add_stage_of_launcher(all);
  return all;
}

/// Gives keys that a source leaves open what `base` says, whatever earlier sources say.
void reset_open(const std::vector<Written>& source, const Config& base, Config& config) {
  for (const Written& written : source) {
    try {
      const std::optional<Setting> setting = setting_of(written);
      if (setting && is_open(*setting)) setting->key->set(setting->key->get(base), config);
    } catch (const std::exception&) {  // refused where it is applied
    }
  }
}

void apply(const std::vector<Written>& all, const ForeignPrecision& precision, const Config& base, Config& config,
           Refusals& refusals) {
  reset_open(all, base, config);
  Applier applier(config);
  for (const Written& written : all) {
    refusals.collect([&] {
      if (!precision.overrules(written)) applier.apply(written);
    });
  }
}

}  // namespace

Config parse(const std::string& ini_text, const std::vector<Option>& overrides, const std::string& source) {
  return parse(ini_text, overrides, source, {});
}

Config parse(const std::string& ini_text, const std::vector<Option>& overrides, const std::string& source,
             const Config& base) {
  Config config = base;
  Refusals refusals;
  const std::vector<Written> in_file = written_in_file(ini_text, source, refusals);
  const std::vector<Written> on_command_line = written_as_overrides(overrides, refusals);
  std::vector<Written> all = in_file;
  all.insert(all.end(), on_command_line.begin(), on_command_line.end());
  const ForeignPrecision precision(all);
  apply(in_file, precision, base, config, refusals);
  apply(on_command_line, precision, base, config, refusals);
  refusals.collect([&] { check_precision(all, config.train.precision); });
  refusals.throw_if_any();
  return config;
}

bool is_dtype_of_model(const std::string& ini_text, const std::vector<Option>& overrides, const std::string& source) {
  Refusals refusals;
  std::vector<Written> all = written_in_file(ini_text, source, refusals);
  const std::vector<Written> on_command_line = written_as_overrides(overrides, refusals);
  all.insert(all.end(), on_command_line.begin(), on_command_line.end());
  refusals.throw_if_any();
  const auto last = std::ranges::find_if(all.rbegin(), all.rend(), [](const Written& written) {
    return written.name == "dtype" || written.name == "torch_dtype";
  });
  const bool has_precision =
      std::ranges::any_of(all, [](const Written& written) { return written.name == "precision"; });
  return last != all.rend() && last->value == "auto" && !has_precision;
}

Config parse_sources(const std::vector<std::vector<PlacedOption>>& sources, const std::vector<std::string>& refused) {
  Refusals refusals(refused);
  std::vector<std::vector<Written>> written(sources.size());
  std::vector<Written> all;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    for (const PlacedOption& placed : sources[i]) {
      std::vector<Written> parts;
      refusals.collect([&] {
        Written one = written_option(placed.option);
        one.place = placed.place;
        add_parts(one, parts, refusals);
      });
      for (const Written& part : parts) {
        refusals.collect([&] {
          static_cast<void>(setting_of(part));  // what cannot be obeyed says nothing of precision
          written[i].push_back(part);
        });
      }
    }
    refusals.collect([&] { check_rivals(written[i]); });
    drop_alias(written[i]);
    add_stage_of_launcher(written[i]);
    all.insert(all.end(), written[i].begin(), written[i].end());
  }
  const ForeignPrecision precision(all);
  Config config;
  for (const std::vector<Written>& source : written) apply(source, precision, Config(), config, refusals);
  refusals.collect([&] { check_precision(all, config.train.precision); });
  refusals.throw_if_any();
  return config;
}

std::set<std::string> keys_given(const std::vector<std::vector<PlacedOption>>& sources) {
  std::set<std::string> names;
  for (const std::vector<PlacedOption>& source : sources) {
    for (const PlacedOption& placed : source) {
      for (const Written& part : parts_of(written_option(placed.option))) {
        const std::optional<Setting> setting = setting_of(part);
        if (setting && !is_open(*setting)) names.insert(setting->key->full_name());
      }
    }
  }
  return names;
}

std::string to_ini(const Config& config) {
  std::string text;
  std::string section;
  for (const Key& key : keys()) {
    if (key.section != section) text += fmt::format("{}[{}]\n", section.empty() ? "" : "\n", key.section);
    section = key.section;
    const std::string value = key.get(config);
    text += fmt::format("{} ={}{}\n", key.name, value.empty() ? "" : " ", value);
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
