// SPDX-License-Identifier: Apache-2.0
// The one source of chance of the emulation, and the end of a program that does something illegal.
#include <unistd.h>

#include <cstdio>
#include <cstdlib>

#include "runtime/state.hpp"
#include "runtime/stream_queue.hpp"

namespace sft::emulation {

namespace {

unsigned long long seed_of_environment() {
  const char* text = std::getenv("SFT_EMULATION_SEED");
  return text == nullptr ? 1 : std::strtoull(text, nullptr, 10);
}

unsigned long long seed_ = seed_of_environment();
unsigned long long state_ = seed_;

}  // namespace

void set_seed(unsigned long long seed) {
  const Lock lock(mutex());
  seed_ = state_ = seed;
}

// SplitMix64 (Steele, Lea, Flood 2014); a `count` is below 2^32.
unsigned long long random_below(unsigned long long count) {
  state_ += 0x9e3779b97f4a7c15ULL;
  unsigned long long bits = state_;
  bits = (bits ^ (bits >> 30)) * 0xbf58476d1ce4e5b9ULL;
  bits = (bits ^ (bits >> 27)) * 0x94d049bb133111ebULL;
  bits ^= bits >> 31;
  return (bits >> 32) * count >> 32;
}

void fault(const std::string& text) {
  std::fprintf(stderr, "emulated GPU: %s\n  (seed %llu: run again with SFT_EMULATION_SEED=%llu)\n", text.c_str(), seed_,
               seed_);
  std::fflush(nullptr);
  _exit(fault_exit_status);
}

}  // namespace sft::emulation
