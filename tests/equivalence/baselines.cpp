// SPDX-License-Identifier: Apache-2.0
#include "equivalence/baselines.hpp"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "equivalence/lone_runs.hpp"
#include "sft/core/ensure.hpp"

namespace sft::test {
namespace {

std::string key_of(const Task& task) {
  std::string key = std::to_string(static_cast<int>(task.family));
  for (const std::int64_t number : {task.global_rows, task.num_hidden_layers, std::int64_t{task.use_peft ? 1 : 0},
                                    task.num_attention_heads, task.intermediate_size}) {
    key += " " + std::to_string(number);
  }
  return key;
}

/// Baselines that an earlier run of this very program left in the file that SFT_BASELINES names.
class Store {
 public:
  Store() {
    const char* path = std::getenv("SFT_BASELINES");
    if (path == nullptr) return;
    path_ = path;
    const auto built = std::filesystem::last_write_time("/proc/self/exe").time_since_epoch().count();
    std::ifstream stream(path_);
    all_ = nlohmann::json::parse(stream, nullptr, /*allow_exceptions=*/false);
    if (!all_.is_object() || all_.value("program", decltype(built){}) != built) all_ = {{"program", built}};
  }

  /// Empty where there is none.
  [[nodiscard]] Trajectory find(const Task& task) const {
    if (!all_.contains(key_of(task))) return {};
    return trajectory_of(all_.at(key_of(task)).get<std::vector<double>>());
  }
  void add(const Task& task, const Trajectory& trajectory) { all_[key_of(task)] = numbers_of(trajectory); }
  /// In one instant, for those that read meanwhile.
  void write() const {
    if (path_.empty()) return;
    const std::string temporary = path_ + "." + std::to_string(::getpid());
    std::ofstream(temporary) << all_.dump();
    std::filesystem::rename(temporary, path_);
  }

 private:
  std::string path_;
  nlohmann::json all_;
};

}  // namespace

Baselines::Baselines(const std::vector<Task>& tasks, const comm::Session& session) {
  const comm::Group& world = session.world();
  Store store;
  std::vector<std::int64_t> lacks;  // on any rank: one may read the file before another writes it
  for (const Task& task : tasks) {
    if (std::ranges::find(entries_, task, &Entry::task) != entries_.end()) continue;
    entries_.push_back({task, store.find(task)});
    lacks.push_back(entries_.back().trajectory.size() == num_steps ? 0 : 1);
  }
  world.max(std::span<std::int64_t>(lacks));
  if (std::ranges::count(lacks, 1) == 0) return;

  LoneRuns runs;
  config::Config config;
  config.train.precision = config::Precision::fp32;
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (lacks[i] != 0) runs.add(entries_[i].task, "", config);
  }
  runs.train(session);
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (lacks[i] == 0) continue;
    entries_[i].trajectory = runs.of(entries_[i].task, "");
    store.add(entries_[i].task, entries_[i].trajectory);
  }
  if (world.rank() == 0) store.write();
}

const Trajectory& Baselines::of(const Task& task) const {
  const auto found = std::ranges::find(entries_, task, &Entry::task);
  SFT_ENSURE(found != entries_.end(), "a baseline of every task");
  return found->trajectory;
}

}  // namespace sft::test
