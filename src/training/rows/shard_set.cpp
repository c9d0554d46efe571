// SPDX-License-Identifier: Apache-2.0
#include "sft/rows/shard_set.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <map>

#include "sft/core/error.hpp"

namespace sft::rows {

namespace {

/// What is there of one set.
struct SetCount {
  std::string first_path;
  std::int64_t num_shards = 0;
  std::int64_t num_files = 0;
  std::map<std::int64_t, int> times;  ///< by index: how often it is there
};

/// The name that shard `index` of the same set got, after that of another one.
std::string expected_path(const std::string& path, std::int64_t index) {
  const std::filesystem::path other(path);
  const std::string name = other.filename().string();
  return (other.parent_path() / shard_name(name.starts_with("eval-") ? "eval" : "train", index)).string();
}

void check(const SetCount& set) {
  int most = 0;
  for (const auto& [index, times] : set.times) most = std::max(most, times);
  for (std::int64_t index = 0; index < set.num_shards; ++index) {
    const auto found = set.times.find(index);
    if (found != set.times.end() && found->second == most) continue;
    const std::string expected = expected_path(set.first_path, index);
    throw_data_error(
        fmt::format("shard {} of {} is missing from the data set", index, set.num_shards),
        fmt::format("{} is one of a set of {}, of which {} files are given; sft-prepare called the missing one {}",
                    set.first_path, set.num_shards, set.num_files, expected),
        "name all shards in data.train_files; to train on a part, prepare that part with sft-prepare");
  }
}

}  // namespace

std::string shard_name(const std::string& split, std::int64_t index) {
  char number[32];
  std::snprintf(number, sizeof(number), "-%05lld.h5", static_cast<long long>(index));
  return split + number;
}

void check_sets(const std::vector<NumberedShard>& shards) {
  std::map<std::string, SetCount> sets;
  for (const NumberedShard& shard : shards) {
    if (!shard.number) continue;
    SetCount& set = sets[shard.number->shard_set + "/" + std::to_string(shard.number->num_shards)];
    if (set.num_files++ == 0) {
      set.first_path = shard.path;
      set.num_shards = shard.number->num_shards;
    }
    ++set.times[shard.number->index];
  }
  for (const auto& [name, set] : sets) check(set);
}

}  // namespace sft::rows
