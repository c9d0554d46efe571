// SPDX-License-Identifier: Apache-2.0
#include "runtime/atomics.hpp"

#include <algorithm>

#include "runtime/block_state.hpp"
#include "runtime/running.hpp"
#include "runtime/shadow.hpp"
#include "runtime/source_line.hpp"
#include "runtime/stream_queue.hpp"
#include "runtime/traffic.hpp"

namespace sft::emulation {

namespace {

template <class T, class Change>
T change(T* address, const char* name, const void* caller, const Change& new_value) {
  const InRuntime in_runtime;
  if (running.shared_begin == nullptr) fault(std::string(name) + " was called outside a kernel");
  access_address = caller;
  check_access(address, sizeof(T), sizeof(T), Access::atomic, name);
  if (is_counting_traffic) count_access(address, sizeof(T), Access::atomic, caller);
  access_address = nullptr;
  BlockThread& thread = block().current();
  exchange_order(address, thread.has_fenced);
  thread.has_fenced = false;
  const T old = *address;
  *address = new_value(old);
  return old;
}

}  // namespace

template <class T>
T atomic_add(T* address, T value) {
  return change(address, "atomicAdd", __builtin_return_address(0), [value](T old) { return old + value; });
}
template <class T>
T atomic_compare_and_swap(T* address, T expected, T value) {
  return change(address, "atomicCAS", __builtin_return_address(0),
                [expected, value](T old) { return old == expected ? value : old; });
}
template <class T>
T atomic_exchange(T* address, T value) {
  return change(address, "atomicExch", __builtin_return_address(0), [value](T) { return value; });
}
template <class T>
T atomic_max(T* address, T value) {
  return change(address, "atomicMax", __builtin_return_address(0), [value](T old) { return std::max(old, value); });
}
template <class T>
T atomic_min(T* address, T value) {
  return change(address, "atomicMin", __builtin_return_address(0), [value](T old) { return std::min(old, value); });
}

#define SFT_ATOMICS_OF(T)                          \
  template T atomic_add<T>(T*, T);                 \
  template T atomic_compare_and_swap<T>(T*, T, T); \
  template T atomic_exchange<T>(T*, T);            \
  template T atomic_max<T>(T*, T);                 \
  template T atomic_min<T>(T*, T);
SFT_ATOMICS_OF(int)
SFT_ATOMICS_OF(unsigned)
SFT_ATOMICS_OF(unsigned long long)
#undef SFT_ATOMICS_OF

void fence() {
  const InRuntime in_runtime;
  block().current().has_fenced = true;
}

}  // namespace sft::emulation
