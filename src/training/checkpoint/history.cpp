// SPDX-License-Identifier: Apache-2.0
#include "sft/checkpoint/save.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <filesystem>
#include <optional>
#include <system_error>
#include <vector>

#include "folder.hpp"
#include "header.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/io/hdf5.hpp"
#include "sft/io/seal.hpp"

namespace sft::checkpoint {

namespace fs = std::filesystem;

namespace {

struct Saved {
  std::string folder;
  Position position;
  std::string date;  ///< not before that of a checkpoint that it goes on from
};

/// The header of a checkpoint; nothing when it cannot be read.
std::optional<Header> header_if_readable(const std::string& folder) {
  try {
    return read_header(folder);
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// Sorts by the order of saving. `checkpoints` ascend by step.
void sort_by_date(std::vector<Saved>& checkpoints) {
  for (auto later = checkpoints.begin(); later != checkpoints.end(); ++later) {
    for (auto earlier = checkpoints.begin(); earlier != later; ++earlier) {
      const Position& before = earlier->position;
      const bool goes_on = contains(later->position.lineage, before.lineage.run_id, before.step);
      if (goes_on) later->date = std::max(later->date, earlier->date);
    }
  }
  std::ranges::stable_sort(checkpoints, {}, &Saved::date);  // of one date, the earlier step first
}

}  // namespace

std::string saved_last(const std::string& output_dir) {
  std::vector<Saved> checkpoints;
  for (const std::string& folder : list(output_dir)) {
    const Header header = read_header(folder);
    checkpoints.push_back({folder, header.position, header.date});
  }
  sort_by_date(checkpoints);
  return checkpoints.empty() ? "" : checkpoints.back().folder;
}

std::string latest_date(const std::string& output_dir) {
  std::string latest;
  for (const std::string& folder : list(output_dir)) {
    const std::optional<Header> header = header_if_readable(folder);
    if (header) latest = std::max(latest, header->date);
  }
  return latest;
}

void remove_old(const std::string& folder, const Lineage& lineage, std::int64_t limit, const std::string& best) {
  if (limit <= 0) return;
  std::int64_t num_kept = 1;        // this one
  std::vector<std::string> others;  // by step, which within one lineage is the order of saving
  for (const std::string& candidate : list(parent_of(folder))) {
    const std::string name = fs::path(candidate).filename().string();
    if (name == fs::path(folder).filename()) continue;
    if (name == best) {
      ++num_kept;
      continue;
    }
    const std::optional<Header> header = header_if_readable(candidate);
    if (!header || !contains(lineage, header->position.lineage.run_id, header->position.step)) continue;
    others.push_back(candidate);
  }
  const auto excess = std::min(std::ssize(others) + num_kept - limit, std::ssize(others));
  for (std::int64_t i = 0; i < excess; ++i) retire_folder(others[i]);
}

namespace {

/// Whether checkpoint.h5 is a whole file: what cannot be made of it then is for another version of this program.
bool is_whole(const std::string& folder) {
  try {
    io::check_seal(index_path(folder));
    static_cast<void>(io::Hdf5File::open(index_path(folder)));
    return true;
  } catch (const Error&) {
    return false;
  }
}

/// A checkpoint whose checkpoint.h5 is damaged, and what an attempt to read it says.
struct Unreadable {
  std::string folder, why;
};

/// The one in output_dir that was saved last, of those that can be read and are not in `damaged`; empty where there is
/// none. `unreadable` gets those that are damaged; one of a version that this program does not know is refused.
std::string last_readable(const std::string& output_dir, const std::vector<std::string>& damaged,
                          std::vector<Unreadable>& unreadable) {
  std::vector<Saved> checkpoints;
  for (const std::string& folder : list(output_dir)) {
    if (std::ranges::find(damaged, folder) != damaged.end()) continue;
    try {
      const Header header = read_header(folder);
      checkpoints.push_back({folder, header.position, header.date});
    } catch (const Error& error) {
      if (is_whole(folder)) throw;
      unreadable.push_back({folder, error.what()});
    }
  }
  sort_by_date(checkpoints);
  if (checkpoints.empty() && damaged.empty() && !unreadable.empty()) {
    throw Error(ExitStatus::data, unreadable.back().why);  // starting anew would be a surprise
  }
  return checkpoints.empty() ? "" : checkpoints.back().folder;
}

/// find_resume without giving anything its name back, and without warnings.
std::string find_complete(const config::Config& config, const std::vector<std::string>& damaged,
                          std::vector<Unreadable>& unreadable) {
  const std::string& wanted = config.checkpoint.resume_from_checkpoint;
  if (wanted == "auto") return last_readable(config.train.output_dir, damaged, unreadable);
  const std::string what_to_do = "give the folder of a complete checkpoint, or auto, or none";
  const std::string problem = "cannot resume from " + wanted;
  if (!fs::is_directory(wanted)) throw_data_error(problem, "there is no such folder", what_to_do);
  if (is_temporary(wanted)) throw_data_error(problem, "it was never finished", what_to_do);
  if (!fs::exists(index_path(wanted))) {
    const std::vector<std::string> inside = list(wanted);
    throw_data_error(problem, "it holds no checkpoint.h5",
                     inside.empty() ? what_to_do : "did you mean " + inside.back() + "?");
  }
  return wanted;
}

bool is_new_start(const config::Config& config) {
  const std::string& wanted = config.checkpoint.resume_from_checkpoint;
  return wanted.empty() || wanted == "none";
}

}  // namespace

std::string find_resume(const config::Config& config, const std::vector<std::string>& damaged) {
  if (is_new_start(config)) return "";
  recover_folders(config.train.output_dir);
  std::vector<Unreadable> unreadable;
  std::string found = find_complete(config, damaged, unreadable);
  if (found.empty()) return found;
  for (const Unreadable& other : unreadable) {
    log_warning(fmt::format("{} is left out ({}): the run goes on from {}", other.folder, other.why, found));
  }
  return found;
}

std::optional<Header> header_of_resume(const config::Config& config, const std::vector<std::string>& damaged) {
  if (is_new_start(config)) return std::nullopt;
  try {
    std::vector<Unreadable> unreadable;
    const std::string folder = find_complete(config, damaged, unreadable);
    if (!folder.empty()) return read_header(folder);
  } catch (const Error&) {  // find_resume says what is wrong
  }
  return std::nullopt;
}

Lineage resume_lineage(const std::string& output_dir, const std::string& folder, const Header& saved,
                       const std::vector<std::string>& damaged) {
  const Lineage& lineage = saved.position.lineage;
  std::error_code error;
  bool goes_on = !lineage.run_id.empty() && fs::equivalent(parent_of(folder), output_dir, error);
  for (const std::string& later : list(output_dir, saved.position.step)) {
    if (std::ranges::find(damaged, later) != damaged.end()) continue;
    const std::optional<Header> header = header_if_readable(later);
    // A run has an older checkpoint of a later step only where it found that one damaged and went back.
    const bool is_newer = header && header->position.lineage.run_id == lineage.run_id && header->date >= saved.date;
    goes_on = goes_on && !is_newer;
  }
  return goes_on ? lineage : branch_off(lineage, saved.position.step);
}

std::vector<std::string> list_of_others(const std::string& output_dir, const Position& position) {
  std::vector<std::string> folders = list(output_dir);
  std::erase_if(folders, [&](const std::string& folder) {
    const std::optional<Header> header = header_if_readable(folder);
    if (!header || header->position.lineage.run_id.empty()) return step_of(folder) <= position.step;
    return contains(position.lineage, header->position.lineage.run_id, header->position.step);
  });
  return folders;
}

}  // namespace sft::checkpoint
