// SPDX-License-Identifier: Apache-2.0
#include "runtime/kernel_fault.hpp"

#include <atomic>
#include <cstdlib>
#include <string>

namespace sft::emulation {

namespace {

std::atomic<bool> is_broken{false};

/// Of the kernel that is waited for.
long num_runs = 0;

}  // namespace

bool is_faulty(const char* name) {
  const char* const text = std::getenv("SFT_EMULATED_KERNEL_FAULT");
  if (text == nullptr) return false;
  const std::string awaited = text;
  const std::size_t colon = awaited.find(':');
  if (std::string(name).find(awaited.substr(0, colon)) == std::string::npos) return false;
  const long run = colon == std::string::npos ? 1 : std::strtol(awaited.c_str() + colon + 1, nullptr, 10);
  if (++num_runs != run) return false;
  is_broken = true;
  return true;
}

bool has_fault() { return is_broken; }

}  // namespace sft::emulation
