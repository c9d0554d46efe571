// SPDX-License-Identifier: Apache-2.0
#pragma once
// The budget of one rendering: steps of work, and bytes that values hold.

#include <fmt/core.h>
#include <cstddef>
#include <string>

#include "jinja/failure.hpp"
#include "sft/jinja/template.hpp"

namespace sft::jinja {

class Heap {
 public:
  explicit Heap(const Limits& limits) : limits_(limits) {}
  Heap(const Heap&) = delete;
  Heap& operator=(const Heap&) = delete;

  void step(std::size_t count = 1) {
    num_steps_ += count;
    if (num_steps_ > limits_.max_steps) fail_steps();
  }
  /// Work on that many bytes of text.
  void move_bytes(std::size_t bytes) { step(1 + bytes / 64); }
  /// Fails unless that many more bytes may be held: called before they are allocated.
  void require(std::size_t bytes) const {
    if (bytes > limits_.max_memory_bytes - held_bytes_) fail_memory();
  }
  void hold(std::size_t bytes) {
    require(bytes);
    held_bytes_ += bytes;
  }
  void release(std::size_t bytes) { held_bytes_ -= bytes; }
  [[nodiscard]] std::size_t max_depth() const { return limits_.max_depth; }

 private:
  [[noreturn]] void fail_steps() const {
    throw Failure(fmt::format("it takes more than {} steps", limits_.max_steps), shorten);
  }
  [[noreturn]] void fail_memory() const {
    throw Failure(fmt::format("its values take more than {} MiB", limits_.max_memory_bytes >> 20), shorten);
  }

  static constexpr const char* shorten = "shorten the conversation, or mend the template's loops";

  const Limits limits_;
  std::size_t num_steps_ = 0;
  std::size_t held_bytes_ = 0;
};

/// Bytes of a heap held as long as this lives; of no heap for the constants of a template.
class Charge {
 public:
  Charge(Heap* heap, std::size_t bytes) : heap_(heap), bytes_(bytes) {
    if (heap_ != nullptr) heap_->hold(bytes_);
  }
  Charge(const Charge&) = delete;
  Charge& operator=(const Charge&) = delete;
  ~Charge() {
    if (heap_ != nullptr) heap_->release(bytes_);
  }
  void add(std::size_t bytes) {
    if (heap_ == nullptr) return;
    heap_->hold(bytes);
    bytes_ += bytes;
  }

 private:
  Heap* heap_;
  std::size_t bytes_;
};

}  // namespace sft::jinja
