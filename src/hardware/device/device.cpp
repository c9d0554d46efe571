// SPDX-License-Identifier: Apache-2.0
#include "sft/device/device.hpp"

#include <atomic>
#include <chrono>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <thread>

#include "sft/core/activity.hpp"
#include "sft/core/log.hpp"
#include "sft/machine/node.hpp"

namespace sft::device {

namespace {

std::uint64_t next_stream_number() {
  static std::atomic<std::uint64_t> number{0};
  return number++;
}

}  // namespace

Stream::Stream() : number_(next_stream_number()) {}

void Stream::drain() noexcept {
  // Not through the log, whose texts are made in memory that may be lacking here.
  try {
    synchronize();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "warning: rank %d: queued work failed at the end: %s\n", log_rank(),
                 printable(error.what(), /*keep_layout=*/false).c_str());
  } catch (...) {
    std::fprintf(stderr, "warning: rank %d: queued work failed at the end\n", log_rank());
  }
}

void Stream::push(std::unique_ptr<Pending>) { throw std::logic_error("only CPU streams hold pending host work"); }

std::size_t Device::peak_bytes() { return machine::peak_resident_bytes(); }

void WaitChecks::add(const void* owner, Check check) { checks_.emplace_back(owner, std::move(check)); }

void WaitChecks::remove(const void* owner) {
  std::erase_if(checks_, [owner](const auto& entry) { return entry.first == owner; });
}

void WaitChecks::wait_until(const std::function<bool()>& is_ready) const {
  constexpr int num_tests_before_sleep = 1000;
  constexpr std::chrono::microseconds sleep(50);
  const Activity waiting(ActivityKind::device, "waiting for its GPU");
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
