// SPDX-License-Identifier: Apache-2.0
#pragma once
// What runs at this moment. One thread of the host at a time runs work of the GPU (it holds mutex()); what other
// threads do meanwhile, in the host's part of a .cu file too, is none of it.

#include <cstddef>
#include <cstdint>
#include <string>

namespace sft::emulation {

struct Running {
  static constexpr int max_warps = 32;

  /// Whether kernel code runs, so that its memory accesses are checked. False inside the runtime.
  bool in_kernel = false;
  /// Where the thread's stack, the kernel's arguments and the block's shared memory lie.
  const char* stack_begin = nullptr;
  const char* stack_end = nullptr;
  const char* arguments_begin = nullptr;
  const char* arguments_end = nullptr;
  char* shared_begin = nullptr;
  char* shared_end = nullptr;

  /// Which block of which launch this is: a number never used again. A task that is no kernel has one as well.
  std::uint32_t run = 0;
  std::uint32_t first_run_of_task = 0;
  std::uint32_t thread = 0;  ///< of the block
  /// How many barriers of the block or of a warp of it were passed so far; when the last one of the whole block, and of
  /// each warp, was passed.
  std::uint32_t clock = 0;
  std::uint32_t last_block_barrier = 0;
  std::uint32_t last_warp_barrier[max_warps] = {};
};
extern constinit thread_local Running running;

/// In the runtime while it lives: accesses are not those of a kernel.
class InRuntime {
 public:
  InRuntime() : was_in_kernel_(running.in_kernel) { running.in_kernel = false; }
  ~InRuntime() { running.in_kernel = was_in_kernel_; }
  InRuntime(const InRuntime&) = delete;
  InRuntime& operator=(const InRuntime&) = delete;

 private:
  bool was_in_kernel_;
};

/// "kernel rms_norm, block (3, 0, 0), thread (17, 0, 0)", or the task's name.
[[nodiscard]] std::string where_running();
/// "thread (17, 0, 0)" of the block that runs.
[[nodiscard]] std::string name_of_thread(std::uint32_t thread);

}  // namespace sft::emulation
