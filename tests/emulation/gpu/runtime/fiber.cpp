// SPDX-License-Identifier: Apache-2.0
#include "runtime/fiber.hpp"

#include <sys/mman.h>

#include <cstdint>
#include <cstdlib>

#include "runtime/stream_queue.hpp"

#ifdef __SANITIZE_ADDRESS__
#include <sanitizer/common_interface_defs.h>
#endif

#ifndef __x86_64__
#error "fibers are written for x86-64"
#endif

// Saves what a function must preserve (System V ABI, x86-64) on the current stack, stores the stack pointer at the
// first argument, and goes on where the stack of the second argument stopped. The control words of x87 and SSE stay: no
// kernel changes them, and to store and load them takes longer than all of the rest.
asm(R"(
.text
.type sft_emulation_switch_stack, @function
sft_emulation_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size sft_emulation_switch_stack, . - sft_emulation_switch_stack

.type sft_emulation_begin_fiber, @function
sft_emulation_begin_fiber:
  movq %r12, %rdi
  call *%r13
  ud2
.size sft_emulation_begin_fiber, . - sft_emulation_begin_fiber
)");
extern "C" void sft_emulation_switch_stack(void** save, void* load);
extern "C" void sft_emulation_begin_fiber();

namespace sft::emulation {

namespace {

constexpr std::size_t page_bytes = 4096;

void start_switch([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* begin,
                  [[maybe_unused]] std::size_t bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_start_switch_fiber(fake_stack, begin, bytes);
#endif
}

void finish_switch([[maybe_unused]] void* fake_stack, [[maybe_unused]] const void** old_begin,
                   [[maybe_unused]] std::size_t* old_bytes) {
#ifdef __SANITIZE_ADDRESS__
  __sanitizer_finish_switch_fiber(fake_stack, old_begin, old_bytes);
#endif
}

}  // namespace

Fiber::Fiber() {
  // Stacks begin at different lines of a cache's sets: all at the same one would drive each other out.
  static std::size_t num_fibers = 0;
  constexpr std::size_t line_bytes = 64, num_colors = 128;
  color_bytes_ = 3 * line_bytes * (num_fibers++ % num_colors);
  void* mapping = mmap(nullptr, page_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED || mprotect(mapping, page_bytes, PROT_NONE) != 0) {
    fault("no memory for the stack of a thread of a block");
  }
  mapping_ = static_cast<char*>(mapping);
  stack_ = mapping_ + page_bytes;
}

Fiber::~Fiber() { munmap(mapping_, page_bytes + stack_bytes); }

void Fiber::start(void (*function)(void*), void* argument) {
  function_ = function;
  argument_ = argument;
  // What the switch pops: r15, r14, r13 (function), r12 (its argument), rbx, rbp, the address of `ret`.
  auto* top = reinterpret_cast<std::uint64_t*>(stack_ + stack_bytes - color_bytes_) - 9;
  top[0] = top[1] = 0;
  top[2] = reinterpret_cast<std::uint64_t>(&Fiber::enter);
  top[3] = reinterpret_cast<std::uint64_t>(this);
  top[4] = top[5] = 0;
  top[6] = reinterpret_cast<std::uint64_t>(&sft_emulation_begin_fiber);
  own_stack_pointer_ = top;
  own_fake_stack_ = nullptr;
}

void Fiber::resume() {
  start_switch(&owner_fake_stack_, stack_, stack_bytes);
  sft_emulation_switch_stack(&owner_stack_pointer_, own_stack_pointer_);
  finish_switch(owner_fake_stack_, nullptr, nullptr);
}

void Fiber::yield() {
  start_switch(&own_fake_stack_, owner_stack_begin_, owner_stack_bytes_);
  sft_emulation_switch_stack(&own_stack_pointer_, owner_stack_pointer_);
  finish_switch(own_fake_stack_, &owner_stack_begin_, &owner_stack_bytes_);
}

void Fiber::enter(Fiber* fiber) {
  finish_switch(nullptr, &fiber->owner_stack_begin_, &fiber->owner_stack_bytes_);
  fiber->function_(fiber->argument_);
  start_switch(nullptr, fiber->owner_stack_begin_, fiber->owner_stack_bytes_);  // null: this stack ends here
  sft_emulation_switch_stack(&fiber->own_stack_pointer_, fiber->owner_stack_pointer_);
  std::abort();  // an ended fiber was resumed
}

}  // namespace sft::emulation
