// SPDX-License-Identifier: Apache-2.0
// What GCC calls in kernels that are compiled with -fsanitize=thread,alignment: here every load and store goes to the
// emulation's own checks in place of the sanitizers' libraries.
#include <cstddef>
#include <cstring>
#include <string>

#include "runtime/memory.hpp"
#include "runtime/running.hpp"
#include "runtime/shadow.hpp"
#include "runtime/source_line.hpp"
#include "runtime/stream_queue.hpp"
#include "runtime/traffic.hpp"

namespace sft::emulation {

namespace {

void access(const void* begin, std::size_t bytes, std::size_t alignment, Access kind, const void* caller) {
  const auto* const first = static_cast<const char*>(begin);
  const bool is_own_stack = first >= running.stack_begin && first + bytes <= running.stack_end;
  if (!running.in_kernel || is_own_stack) return;  // the host's part of a .cu file is instrumented too
  if (kind == Access::read && is_of_program(begin, bytes)) return;
  access_address = caller;
  {
    const InRuntime in_runtime;
    check_access(begin, bytes, alignment, kind, nullptr);
    if (is_counting_traffic) count_access(begin, bytes, kind, caller);
  }
  access_address = nullptr;
}

}  // namespace

}  // namespace sft::emulation

using sft::emulation::access;
using sft::emulation::Access;

extern "C" {

void __tsan_init() {}

#define SFT_ACCESSES_OF(bytes)                                                                                      \
  void __tsan_read##bytes(void* p) { access(p, bytes, bytes, Access::read, __builtin_return_address(0)); }          \
  void __tsan_write##bytes(void* p) { access(p, bytes, bytes, Access::write, __builtin_return_address(0)); }        \
  void __tsan_unaligned_read##bytes(void* p) { access(p, bytes, 1, Access::read, __builtin_return_address(0)); }    \
  void __tsan_unaligned_write##bytes(void* p) { access(p, bytes, 1, Access::write, __builtin_return_address(0)); }  \
  void __tsan_volatile_read##bytes(void* p) { access(p, bytes, bytes, Access::read, __builtin_return_address(0)); } \
  void __tsan_volatile_write##bytes(void* p) { access(p, bytes, bytes, Access::write, __builtin_return_address(0)); }
SFT_ACCESSES_OF(1)
SFT_ACCESSES_OF(2)
SFT_ACCESSES_OF(4)
SFT_ACCESSES_OF(8)
SFT_ACCESSES_OF(16)
#undef SFT_ACCESSES_OF
void __tsan_read_range(void* p, std::size_t bytes) { access(p, bytes, 1, Access::read, __builtin_return_address(0)); }
void __tsan_write_range(void* p, std::size_t bytes) { access(p, bytes, 1, Access::write, __builtin_return_address(0)); }
void __tsan_vptr_read(void** /*pointer*/) {}
void __tsan_vptr_update(void** /*pointer*/, void* /*value*/) {}

/// Calls of memcpy and its like in kernels come here: see runtime/instrumented.hpp.
void* sft_emulation_memcpy(void* destination, const void* source, std::size_t bytes) {
  access(source, bytes, 1, Access::read, __builtin_return_address(0));
  access(destination, bytes, 1, Access::write, __builtin_return_address(0));
  return std::memcpy(destination, source, bytes);
}
void* sft_emulation_memset(void* destination, int value, std::size_t bytes) {
  access(destination, bytes, 1, Access::write, __builtin_return_address(0));
  return std::memset(destination, value, bytes);
}

/// -fsanitize=alignment: `data` begins with the place in the source, then a type whose alignment is not kept.
void __ubsan_handle_type_mismatch_v1_abort(void* data, void* address) {
  const sft::emulation::InRuntime in_runtime;
  struct Place {
    const char* file;
    unsigned line;
  };
  const Place& place = *static_cast<const Place*>(data);
  sft::emulation::fault(sft::emulation::where_running() + ": misaligned access to " +
                        sft::emulation::describe_address(address) + ", " + place.file + ":" +
                        std::to_string(place.line));
}

}  // extern "C"
