// SPDX-License-Identifier: Apache-2.0
#include "sft/core/activity.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>

namespace sft {

namespace {

constexpr auto relaxed = std::memory_order_relaxed;

ActivityRecord at_home;
std::atomic<ActivityRecord*> noted_in{&at_home};
std::atomic<std::uint64_t> num_moves{0};

// Of the thread of `main` alone.
std::chrono::nanoseconds waited{0};
bool is_waiting = false;

bool is_main_thread() {
  static thread_local const bool is_main = ::syscall(SYS_gettid) == ::getpid();
  return is_main;
}

}  // namespace

void ActivityRecord::enter(ActivityKind kind, std::string_view what, std::string_view of, std::string_view over,
                           std::uint64_t number) {
  const std::uint64_t depth = depth_.load(relaxed);
  if (depth < max_depth) {
    std::array<char, max_text_bytes> text{};
    std::size_t length = 0;
    const auto append = [&](std::string_view part) {
      const std::size_t count = std::min(part.size(), max_text_bytes - length);
      std::memcpy(text.data() + length, part.data(), count);
      length += count;
    };
    append(what);
    if (!of.empty()) {
      append(" of ");
      append(of);
    }
    if (!over.empty()) {
      append(" over ");
      append(over);
    }
    Frame& frame = frames_[depth];
    for (std::size_t i = 0; i < frame.text.size(); ++i) {
      std::uint64_t word = 0;
      std::memcpy(&word, text.data() + i * sizeof word, sizeof word);
      frame.text[i].store(word, relaxed);
    }
    frame.kind_and_number.store(number << 8 | static_cast<std::uint64_t>(kind), relaxed);
  }
  depth_.store(depth + 1, std::memory_order_release);
}

void ActivityRecord::leave() { depth_.store(depth_.load(relaxed) - 1, std::memory_order_release); }

void ActivityRecord::take(const ActivityRecord& other) {
  for (std::size_t i = 0; i < max_depth; ++i) {
    for (std::size_t w = 0; w < frames_[i].text.size(); ++w) {
      frames_[i].text[w].store(other.frames_[i].text[w].load(relaxed), relaxed);
    }
    frames_[i].kind_and_number.store(other.frames_[i].kind_and_number.load(relaxed), relaxed);
  }
  depth_.store(other.depth_.load(relaxed), std::memory_order_release);
}

std::vector<ActivityText> ActivityRecord::read() const {
  std::vector<ActivityText> all;
  const std::uint64_t depth = std::min<std::uint64_t>(depth_.load(std::memory_order_acquire), max_depth);
  for (std::size_t i = 0; i < depth; ++i) {
    std::array<char, max_text_bytes> text{};
    for (std::size_t w = 0; w < frames_[i].text.size(); ++w) {
      const std::uint64_t word = frames_[i].text[w].load(relaxed);
      std::memcpy(text.data() + w * sizeof word, &word, sizeof word);
    }
    const std::uint64_t kind_and_number = frames_[i].kind_and_number.load(relaxed);
    all.push_back({.kind = static_cast<ActivityKind>(kind_and_number & 0xff),
                   .text = std::string(text.begin(), std::find(text.begin(), text.end(), '\0')),
                   .number = kind_and_number >> 8});
  }
  return all;
}

void note_activities_in(ActivityRecord* record) {
  ActivityRecord* const next = record == nullptr ? &at_home : record;
  next->take(*noted_in.load(relaxed));
  noted_in.store(next, std::memory_order_release);
}

const ActivityRecord& own_activities() { return *noted_in.load(std::memory_order_acquire); }

void note_progress() { num_moves.fetch_add(1, relaxed); }
std::uint64_t progress() { return num_moves.load(relaxed); }

std::chrono::nanoseconds time_waited() { return waited; }

Activity::Activity(ActivityKind kind, std::string_view what, std::string_view of, std::string_view over,
                   std::uint64_t number)
    : is_noted_(is_main_thread()) {
  if (!is_noted_) return;
  note_progress();
  noted_in.load(relaxed)->enter(kind, what, of, over, number);
  if (kind != ActivityKind::waits || is_waiting) return;
  is_waiting = is_outermost_wait_ = true;
  start_ = std::chrono::steady_clock::now();
}

Activity::~Activity() {
  if (!is_noted_) return;
  note_progress();
  noted_in.load(relaxed)->leave();
  if (!is_outermost_wait_) return;
  is_waiting = false;
  waited += std::chrono::steady_clock::now() - start_;
}

}  // namespace sft
