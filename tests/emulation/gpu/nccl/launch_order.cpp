// SPDX-License-Identifier: Apache-2.0
#include "launch_order.hpp"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "launch.hpp"

namespace sft::emulation {

LaunchOrder& LaunchOrder::mine() {
  static LaunchOrder order;
  return order;
}

void LaunchOrder::read_environment() {
  const std::lock_guard lock(mutex_);
  if (std::exchange(is_read_, true)) return;
  const char* value = std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT");
  is_implicit_ = value != nullptr && std::string_view(value) == "1";
}

void LaunchOrder::add(const Launch& launch) {
  const std::lock_guard lock(mutex_);
  unfinished_.push_back(&launch);
}

bool LaunchOrder::may_run(const Launch& launch) {
  const std::lock_guard lock(mutex_);
  if (running_ != nullptr) return running_ == &launch;
  const auto is_before = [&](const Launch* other) {
    return is_implicit_ || &other->communicator() == &launch.communicator();
  };
  if (*std::ranges::find_if(unfinished_, is_before) != &launch) return false;
  running_ = &launch;
  return true;
}

void LaunchOrder::remove(const Launch& launch) {
  const std::lock_guard lock(mutex_);
  std::erase(unfinished_, &launch);
  if (running_ == &launch) running_ = nullptr;
}

}  // namespace sft::emulation
