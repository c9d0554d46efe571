// SPDX-License-Identifier: Apache-2.0
#include "watchdog.hpp"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "sft/core/error.hpp"
#include "sft/core/log.hpp"

namespace sft::comm {

std::vector<std::string> names_of(const std::vector<TensorGroup>& groups) {
  std::vector<std::string> names;
  for (const TensorGroup& group : groups) names.push_back(group.group.name());
  return names;
}

Watchdog::Watchdog(const std::vector<std::string>& names, double timeout_s, Hooks hooks)
    : timeout_(std::chrono::duration_cast<CallLog::Duration>(std::chrono::duration<double>(timeout_s))),
      hooks_(std::move(hooks)),
      log_(names) {
  if (timeout_s > 0) thread_ = std::thread([this] { watch(); });
}

Watchdog::~Watchdog() {
  {
    const std::lock_guard lock(mutex_);
    ends_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Watchdog::start(std::size_t group, const char* call, std::size_t bytes) {
  const std::lock_guard lock(mutex_);
  log_.start(group, call, bytes, std::chrono::steady_clock::now());
}

void Watchdog::finish(std::size_t group) {
  const std::lock_guard lock(mutex_);
  log_.finish(group, std::chrono::steady_clock::now());
}

void Watchdog::watch() {
  constexpr CallLog::Duration longest_pause = std::chrono::seconds(10);
  const CallLog::Duration pause = std::min(timeout_ / 8, longest_pause);
  std::unique_lock lock(mutex_);
  while (!changed_.wait_for(lock, pause, [this] { return ends_; })) {
    if (log_.standstill(std::chrono::steady_clock::now()) < timeout_ / 2) continue;
    if (hooks_.refresh) {
      lock.unlock();
      hooks_.refresh();
      lock.lock();
    }
    const auto now = std::chrono::steady_clock::now();
    if (ends_ || log_.standstill(now) < timeout_) continue;
    const std::string standstill = log_.describe(now);
    lock.unlock();
    hooks_.on_standstill(standstill);
    return;
  }
}

namespace {

std::optional<std::size_t> number_of(const Group& group, const std::vector<TensorGroup>& groups) {
  if (group.size() == 1) return std::nullopt;
  for (std::size_t i = 0; i < groups.size(); ++i) {
    if (groups[i].group == group) return i;
  }
  throw std::logic_error("group " + group.name() + " was not given to make_collectives");
}

}  // namespace

WatchedCall::WatchedCall(Watchdog& watchdog, const std::vector<TensorGroup>& groups, const Group& group,
                         const char* call, std::size_t bytes)
    : watchdog_(watchdog), number_(number_of(group, groups)) {
  if (number_) watchdog_.start(*number_, call, bytes);
}

void end_at_standstill(const std::string& standstill) {
  const Error error(ExitStatus::failure, "rank " + std::to_string(log_rank()) + ": the collectives stand still",
                    standstill,
                    "look for an earlier message of another rank; [device] comm_timeout_s says how long is waited");
  log_error(error.what());
  std::_Exit(static_cast<int>(ExitStatus::failure));
}

}  // namespace sft::comm
