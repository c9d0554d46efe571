#include "sft/train/resume.hpp"

#include <algorithm>
#include <sstream>
#include <utility>
#include <vector>

#include "sft/config/parse.hpp"
#include "sft/core/error.hpp"

namespace sft::train {

namespace {

using Entries = std::vector<std::pair<std::string, std::string>>;

std::string trim(const std::string& text) {
  const auto begin = text.find_first_not_of(" \t\r");
  if (begin == std::string::npos) return "";
  return text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1);
}

/// "section.key" and value, in the order of the text that to_ini writes: what was given before what is derived from it.
Entries entries_of(const config::Config& config) {
  std::istringstream lines(config::to_ini(config));
  Entries entries;
  std::string section;
  for (std::string line; std::getline(lines, line);) {
    line = trim(line);
    if (line.empty() || line[0] == '#') continue;
    if (line[0] == '[') {
      section = line.substr(1, line.find(']') - 1);
    } else if (const auto equals = line.find('='); equals != std::string::npos) {
      entries.emplace_back(section + "." + trim(line.substr(0, equals)), trim(line.substr(equals + 1)));
    }
  }
  return entries;
}

/// Whether a resumed run needs the key as it was. A model folder may have moved; what is in it is compared by shape.
bool must_stay(const std::string& key) {
  if (key == "model.model_name_or_path") return false;
  return key.rfind("model.", 0) == 0 || key == "data.shuffle" || key == "data.seed" || key == "train.seed";
}

[[noreturn]] void refuse(const std::string& what, const std::string& now, const std::string& then,
                         const std::string& folder, const std::string& what_to_do) {
  throw_config_error(what + " is " + now + ", but " + folder + " was written with " + then,
                     "a resumed run must go on as it was begun",
                     what_to_do + ", or set checkpoint.resume_from_checkpoint = none and another train.output_dir");
}

}  // namespace

void check_resume(const config::Config& config, std::int64_t num_rows, std::int64_t max_length,
                  const std::string& folder, const checkpoint::Header& saved) {
  const config::Config then = config::parse(saved.config_ini, {}, folder);
  const Entries old_entries = entries_of(then);
  for (const auto& [key, value] : entries_of(config)) {
    const auto old = std::ranges::find(old_entries, key, &Entries::value_type::first);
    if (old == old_entries.end() || old->second == value || !must_stay(key)) continue;
    refuse(key, value, old->second, folder, "set " + key + " = " + old->second);
  }
  const auto refuse_number = [&](const std::string& what, std::int64_t now, std::int64_t before,
                                 const std::string& what_to_do) {
    if (now != before) refuse(what, std::to_string(now), std::to_string(before), folder, what_to_do);
  };
  refuse_number("the effective batch in rows", config.effective_batch_rows(), then.effective_batch_rows(),
                "set train.gradient_accumulation_steps or train.per_device_train_batch_size to make it " +
                    std::to_string(then.effective_batch_rows()));
  refuse_number("the number of rows of data.train_files", num_rows, saved.position.num_rows,
                "give data.train_files the shards of that run");
  refuse_number("max_length of data.train_files", max_length, saved.position.max_length,
                "give data.train_files the shards of that run");
}

void check_resume_data(const std::string& fingerprint, const std::string& folder, const checkpoint::Header& saved) {
  const std::string& before = saved.position.data_fingerprint;
  if (before.empty() || before == fingerprint) return;
  refuse("the content or order of data.train_files, by its fingerprint,", fingerprint, before, folder,
         "give data.train_files the shards of that run in the same order (a glob sorts them by name)");
}

}  // namespace sft::train
