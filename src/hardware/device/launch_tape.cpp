// SPDX-License-Identifier: Apache-2.0
#include "sft/device/launch_tape.hpp"

#include <utility>

#include "sft/core/ensure.hpp"

namespace sft::device {

namespace {

/// A chain of one launch is no shorter as a recording.
constexpr std::size_t least_launches = 2;

}  // namespace

LaunchTape::LaunchTape(std::unique_ptr<Recorder> recorder, const Limits& limits)
    : recorder_(std::move(recorder)), limits_(limits) {
  SFT_ENSURE(limits_.kept > 0, "a tape keeps a chain");
}

std::size_t LaunchTape::HashOfKey::operator()(const Key& key) const noexcept {
  std::uint64_t hash = key.size();
  for (const std::uint64_t word : key) hash = (hash ^ word ^ (hash >> 29U)) * 0x9e3779b97f4a7c15U;
  return hash ^ (hash >> 32U);
}

void LaunchTape::stop() {
  settle();
  is_on_ = false;
}

void LaunchTape::defer(std::span<const std::uint64_t> key, Launch launch) {
  if (!is_on_ || is_settling_) return launch();
  key_.insert(key_.end(), key.begin(), key.end());
  launches_.push_back(std::move(launch));
}

void LaunchTape::forget() noexcept {
  is_on_ = false;
  key_.clear();
  launches_.clear();
}

void LaunchTape::settle_chain() {
  struct Settling {
    explicit Settling(LaunchTape& settled) : tape(settled) { tape.is_settling_ = true; }
    ~Settling() {
      tape.is_settling_ = false;
      tape.key_.clear();
    }
    Settling(const Settling&) = delete;
    Settling& operator=(const Settling&) = delete;
    LaunchTape& tape;
  };
  const Settling settling(*this);
  const std::vector<Launch> launches = std::exchange(launches_, {});
  if (Recording* recording = recording_of_chain(launches)) {
    recording->launch();
    ++counts_.chains;
    counts_.repeated += std::ssize(launches);
    return;
  }
  for (const Launch& launch : launches) launch();
  counts_.plain += std::ssize(launches);
}

Recording* LaunchTape::recording_of_chain(const std::vector<Launch>& launches) {
  if (recorder_ == nullptr || launches.size() < least_launches) return nullptr;
  Chain& chain = find_chain();
  if (chain.recording != nullptr) return chain.recording.get();
  if (++chain.times_seen < limits_.recorded_at) return nullptr;
  chain.recording = recorder_->record(launches.size(), [launches] {
    for (const Launch& launch : launches) launch();
  });
  if (chain.recording == nullptr) {
    recorder_.reset();
    return nullptr;
  }
  ++counts_.recordings;
  return chain.recording.get();
}

LaunchTape::Chain& LaunchTape::find_chain() {
  const auto [found, is_new] = by_key_.try_emplace(key_);
  if (is_new) {
    chains_.push_front({.key = &found->first});
    found->second = chains_.begin();
    if (chains_.size() > limits_.kept) {
      by_key_.erase(by_key_.find(*chains_.back().key));
      chains_.pop_back();
    }
  } else {
    chains_.splice(chains_.begin(), chains_, found->second);
  }
  return chains_.front();
}

}  // namespace sft::device
