// SPDX-License-Identifier: Apache-2.0
#include "sft/device/wait_checks.hpp"

#include <chrono>
#include <thread>

namespace sft::device {

void WaitChecks::add(const void* owner, Check check) { checks_.emplace_back(owner, std::move(check)); }

void WaitChecks::remove(const void* owner) {
  std::erase_if(checks_, [owner](const auto& entry) { return entry.first == owner; });
}

void WaitChecks::wait_until(const std::function<bool()>& is_ready) const {
  constexpr int num_tests_before_sleep = 1000;
  constexpr std::chrono::microseconds sleep(50);
  for (int num_tests = 0; !is_ready();) {
    for (const auto& [owner, check] : checks_) check();
    if (num_tests < num_tests_before_sleep) {
      ++num_tests;
      std::this_thread::yield();
    } else {
      std::this_thread::sleep_for(sleep);
    }
  }
}

}  // namespace sft::device
