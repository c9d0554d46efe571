// SPDX-License-Identifier: Apache-2.0
#include "sft/core/gpu_launches.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <map>
#include <mutex>
#include <string_view>

#include "sft/core/error.hpp"

namespace sft {

namespace {

/// As many as CUDA queues before it makes the host wait.
constexpr std::size_t num_kept = 1024;

struct Launch {
  std::atomic<const char*> name{nullptr};
  std::atomic<const void*> stream{nullptr};
};

/// A ring: launch number i is at i % num_kept.
std::array<Launch, num_kept> launches;
std::atomic<std::uint64_t> count_of_launches{0};

std::mutex mutex_of_finished;
/// By stream: the launches before this number are done.
std::map<const void*, std::uint64_t> finished;

/// Calls visit(number, name, stream) for the launches from number `first` on that are kept, oldest first.
template <class Visit>
void for_each_launch(std::uint64_t first, const Visit& visit) {
  const std::uint64_t end = num_launches();
  for (std::uint64_t i = std::max(first, end - std::min<std::uint64_t>(end, num_kept)); i < end; ++i) {
    const Launch& launch = launches[i % num_kept];
    // Null: of another thread, which is about to store it.
    const char* const name = launch.name.load(std::memory_order_relaxed);
    if (name != nullptr) visit(i, name, launch.stream.load(std::memory_order_relaxed));
  }
}

/// Different names of launches that may not be finished, newest first, with commas.
std::string last_names() {
  constexpr std::size_t most = 32;
  std::vector<std::string_view> named;  // oldest first
  {
    const std::lock_guard lock(mutex_of_finished);
    for_each_launch(0, [&](std::uint64_t number, std::string_view name, const void* stream) {
      const auto done = finished.find(stream);
      if (done != finished.end() && number < done->second) return;
      std::erase(named, name);
      named.push_back(name);
    });
  }
  std::string text;
  for (std::size_t i = 0; i < named.size(); ++i) {
    if (i == most) return text + ", ...";
    text += fmt::format("{}{}", i == 0 ? "" : ", ", named[named.size() - 1 - i]);
  }
  return text;
}

}  // namespace

void note_launch(const char* name, const void* stream) noexcept {
  Launch& launch = launches[count_of_launches.fetch_add(1, std::memory_order_relaxed) % num_kept];
  launch.name.store(name, std::memory_order_relaxed);
  launch.stream.store(stream, std::memory_order_relaxed);
}

std::uint64_t num_launches() noexcept { return count_of_launches.load(std::memory_order_relaxed); }

std::vector<const char*> launches_since(std::uint64_t count, const void* stream) {
  std::vector<const char*> names;
  for_each_launch(count, [&](std::uint64_t, const char* name, const void* of) {
    if (of == stream) names.push_back(name);
  });
  return names;
}

void note_finished(const void* stream, std::uint64_t count) {
  const std::lock_guard lock(mutex_of_finished);
  std::uint64_t& known = finished[stream];
  known = std::max(known, count);
}

bool is_of_a_kernel(int cuda_error) noexcept {
  switch (cuda_error) {
    case 700:  // cudaErrorIllegalAddress
    case 702:  // cudaErrorLaunchTimeout
    case 710:  // cudaErrorAssert
    case 714:  // cudaErrorHardwareStackError
    case 715:  // cudaErrorIllegalInstruction
    case 716:  // cudaErrorMisalignedAddress
    case 717:  // cudaErrorInvalidAddressSpace
    case 718:  // cudaErrorInvalidPc
    case 719:  // cudaErrorLaunchFailure
      return true;
    default:
      return false;
  }
}

void throw_if_of_a_kernel(int cuda_error, const char* text) {
  if (!is_of_a_kernel(cuda_error)) return;
  const std::string last = last_names();
  throw Error(
      ExitStatus::failure, "a CUDA kernel failed",
      last.empty() ? fmt::format("{}; no kernel of this program was under way", text)
                   : fmt::format("{}; the last kernels launched were, newest first, {}", text, last),
      "run again with CUDA_LAUNCH_BLOCKING=1 and --device.cuda_graphs false, where the first name is the kernel's, "
      "and report it; where that differs from run to run, check the GPU with nvidia-smi");
}

}  // namespace sft
