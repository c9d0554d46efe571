// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fibers: functions with stacks of their own that one thread of the host switches between.

#include <cstddef>

namespace sft::emulation {

/// A stack that can run one function at a time. The one who resumes it is its owner; the function yields back to it.
class Fiber {
 public:
  static constexpr std::size_t stack_bytes = std::size_t{256} << 10;

  Fiber();
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// The next resume() begins `function(argument)`. What ran here before must have returned.
  void start(void (*function)(void*), void* argument);
  /// Runs until the function yields or returns.
  void resume();
  /// Called on the fiber: goes back to resume(), and returns when the fiber is resumed again.
  void yield();

  [[nodiscard]] const char* stack_begin() const { return stack_; }
  [[nodiscard]] const char* stack_end() const { return stack_ + stack_bytes; }

 private:
  [[noreturn]] static void enter(Fiber* fiber);

  char* mapping_ = nullptr;  ///< a page that cannot be touched, then the stack
  char* stack_ = nullptr;
  std::size_t color_bytes_ = 0;  ///< of its end that are not used
  void* own_stack_pointer_ = nullptr;
  void* owner_stack_pointer_ = nullptr;
  void (*function_)(void*) = nullptr;
  void* argument_ = nullptr;
  // AddressSanitizer's view of the two stacks.
  void* own_fake_stack_ = nullptr;
  void* owner_fake_stack_ = nullptr;
  const void* owner_stack_begin_ = nullptr;
  std::size_t owner_stack_bytes_ = 0;
};

}  // namespace sft::emulation
