// SPDX-License-Identifier: Apache-2.0
#include "equivalence/baselines.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "sft/core/ensure.hpp"

namespace sft::test {
namespace {

/// A result as doubles, all exact, to be sent between ranks and stored.
using Numbers = std::array<double, 7>;
Numbers pack(const train::StepResult& r) {
  return {r.loss,
          r.grad_norm,
          r.mean_token_accuracy,
          r.entropy,
          static_cast<double>(r.num_tokens),
          static_cast<double>(r.num_target_tokens),
          r.model_flops};
}
train::StepResult unpack(const Numbers& v) {
  return {v[0], v[1], v[2], v[3], static_cast<std::int64_t>(v[4]), static_cast<std::int64_t>(v[5]), v[6]};
}

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
    Trajectory trajectory;
    if (!all_.contains(key_of(task))) return trajectory;
    for (const auto& numbers : all_.at(key_of(task))) trajectory.push_back(unpack(numbers.get<Numbers>()));
    return trajectory;
  }
  void add(const Task& task, const Trajectory& trajectory) {
    nlohmann::json& numbers = all_[key_of(task)] = nlohmann::json::array();
    for (const train::StepResult& result : trajectory) numbers.push_back(pack(result));
  }
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

  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (lacks[i] == 0) continue;
    Entry& entry = entries_[i];
    const bool is_mine = static_cast<int>(i) % world.size() == world.rank();
    entry.trajectory.assign(num_steps, {});
    if (is_mine) {
      entry.trajectory = train(entry.task, {}, 1, config::Precision::fp32, make_lone_mesh(entry.task.model()), session);
    }
  }
  for (std::size_t i = 0; i < entries_.size(); ++i) {
    if (lacks[i] == 0) continue;
    for (train::StepResult& result : entries_[i].trajectory) {
      Numbers numbers = pack(result);
      world.sum(std::span<double>(numbers));
      result = unpack(numbers);
    }
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
