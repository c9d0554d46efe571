// SPDX-License-Identifier: Apache-2.0
#include "runtime/memory.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "runtime/device_properties.hpp"

namespace sft::emulation {

namespace {

constexpr std::size_t device_range_bytes = std::size_t{32} << 30, pinned_range_bytes = std::size_t{16} << 30;
/// Of memory that is registered in the life of a program: it has a shadow of its own each time.
constexpr std::size_t registered_bytes = std::size_t{16} << 30;
constexpr std::size_t alignment_bytes = 512, gap_bytes = 512, page_bytes = 4096;
/// Device memory is opened and closed by multiples of these: one entry of the page table instead of 512.
constexpr std::size_t huge_page_bytes = std::size_t{2} << 20;
/// Not a number in float, bfloat16 and double.
constexpr int poison_byte = 0xff;

void report_host_access(int signal, siginfo_t* info, void* context);

class Memory {
 public:
  Memory() {
    void* const mapping = mmap(nullptr, huge_page_bytes + device_range_bytes + pinned_range_bytes, PROT_NONE,
                               MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapping == MAP_FAILED) fault("no range of addresses for the memory of the emulated GPU");
    const auto address = reinterpret_cast<std::uintptr_t>(mapping) + huge_page_bytes - 1;
    range_ = reinterpret_cast<char*>(address / huge_page_bytes * huge_page_bytes);
    madvise(range_, device_range_bytes, MADV_HUGEPAGE);  // a system without them is slower
    device_top_ = range_;
    pinned_top_ = pinned_begin();
    if (mprotect(pinned_begin(), pinned_range_bytes, PROT_READ | PROT_WRITE) != 0) fault("mprotect failed");
    used_bytes_.resize(static_cast<std::size_t>(num_gpus()));
    num_live_.resize(device_range_bytes / huge_page_bytes);
    watch_host();
  }

  [[nodiscard]] void* allocate(MemoryKind kind, int device, std::size_t bytes) {
    const bool is_device = kind == MemoryKind::device;
    if (is_device && bytes > free_bytes(device)) return nullptr;
    char*& top = is_device ? device_top_ : pinned_top_;
    const char* range_end = is_device ? pinned_begin() : end();
    const std::size_t taken = (bytes + gap_bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
    if (taken > static_cast<std::size_t>(range_end - top)) return nullptr;
    char* const begin = top;
    top += taken;
    {
      const DeviceMemoryAccess access;
      if (is_device) protect(PROT_READ | PROT_WRITE);  // the range has grown
      std::memset(begin, poison_byte, bytes);
    }
    live_[begin] = {begin, bytes, kind, device, ++num_allocations_, 0};
    if (is_device) {
      used_bytes_[static_cast<std::size_t>(device)] += bytes;
      for (std::size_t page = page_of(begin); page <= page_of(begin + bytes); ++page) ++num_live_[page];
    }
    return begin;
  }

  [[nodiscard]] bool release(MemoryKind kind, void* begin) {
    const auto found = live_.find(static_cast<char*>(begin));
    if (found == live_.end() || found->second.kind != kind || !contains(begin)) return false;
    const Allocation& allocation = found->second;
    if (kind == MemoryKind::device) {
      used_bytes_[static_cast<std::size_t>(allocation.device)] -= allocation.bytes;
      drop_device_pages(allocation);
    } else {
      drop_pinned_pages(allocation);
    }
    freed_.insert(*found);
    live_.erase(found);
    return true;
  }

  [[nodiscard]] bool add_host(void* begin, std::size_t bytes) {
    auto* const first = static_cast<char*>(begin);
    if (find(first) != nullptr || (bytes > 0 && find(first + bytes - 1) != nullptr)) return false;
    if (bytes > registered_bytes - num_registered_) fault("more memory is registered than the emulation can follow");
    live_[first] = {first,
                    bytes,
                    MemoryKind::pinned,
                    0,
                    ++num_allocations_,
                    (device_range_bytes + pinned_range_bytes + num_registered_) / 2};
    num_registered_ += (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
    return true;
  }

  [[nodiscard]] bool remove_host(void* begin) {
    const auto found = live_.find(static_cast<char*>(begin));
    if (found == live_.end() || contains(begin)) return false;
    live_.erase(found);
    return true;
  }

  [[nodiscard]] const Allocation* find(const void* address) const {
    auto next = live_.upper_bound(static_cast<char*>(const_cast<void*>(address)));
    if (next == live_.begin()) return nullptr;
    const Allocation& allocation = (--next)->second;
    return static_cast<const char*>(address) < allocation.begin + allocation.bytes ? &allocation : nullptr;
  }
  /// The allocation that `address` lies in, or that lies just before it: a live one, or one of the emulation's ranges
  /// that was freed.
  [[nodiscard]] const Allocation* find_nearest(const void* address, bool& is_freed) const {
    const Allocation* nearest = nullptr;
    for (const auto* allocations : {&live_, &freed_}) {
      auto next = allocations->upper_bound(static_cast<char*>(const_cast<void*>(address)));
      if (next == allocations->begin()) continue;
      const Allocation& before = (--next)->second;
      const bool is_near = static_cast<const char*>(address) < before.begin + before.bytes + gap_bytes;
      if (!is_near || (nearest != nullptr && nearest->begin > before.begin)) continue;
      nearest = &before;
      is_freed = allocations == &freed_;
    }
    return nearest;
  }

  [[nodiscard]] bool contains(const void* address) const { return address >= range_ && address < end(); }
  [[nodiscard]] bool is_device(const void* address) const { return address >= range_ && address < pinned_begin(); }
  [[nodiscard]] const char* begin() const { return range_; }
  [[nodiscard]] std::size_t free_bytes(int device) const {
    return gpu_memory_bytes() - used_bytes_[static_cast<std::size_t>(device)];
  }
  [[nodiscard]] const struct sigaction& previous_action() const { return previous_action_; }

  void begin_access() {
    if (num_accesses_++ == 0) protect(PROT_READ | PROT_WRITE);
  }
  void end_access() {
    if (--num_accesses_ > 0) return;
    protect(PROT_NONE);
    watch_host();
  }

 private:
  [[nodiscard]] char* pinned_begin() const { return range_ + device_range_bytes; }
  [[nodiscard]] std::size_t page_of(const char* device_address) const {
    return static_cast<std::size_t>(device_address - range_) / huge_page_bytes;
  }

  /// Gives pages back that nothing lives in any more, and that nothing will. Whole ones: a part of one would cut it up,
  /// and then it is slow to open and to close.
  void drop_device_pages(const Allocation& allocation) {
    const std::size_t last = page_of(allocation.begin + allocation.bytes);
    for (std::size_t page = page_of(allocation.begin); page <= last; ++page) {
      if (--num_live_[page] > 0 || page == page_of(device_top_)) continue;
      madvise(range_ + page * huge_page_bytes, huge_page_bytes, MADV_DONTNEED);
    }
  }
  static void drop_pinned_pages(const Allocation& allocation) {
    const auto begin = reinterpret_cast<std::uintptr_t>(allocation.begin);
    const auto first_page = (begin + page_bytes - 1) / page_bytes * page_bytes;
    const auto last_page = (begin + allocation.bytes) / page_bytes * page_bytes;
    if (last_page > first_page) madvise(reinterpret_cast<void*>(first_page), last_page - first_page, MADV_DONTNEED);
  }
  [[nodiscard]] const char* end() const { return range_ + device_range_bytes + pinned_range_bytes; }

  /// Others (Open MPI, Boost.Test) catch SIGSEGV as well, and may have done so since the last time.
  void watch_host() {
    struct sigaction action {};
    action.sa_sigaction = &report_host_access;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    struct sigaction previous {};
    sigaction(SIGSEGV, &action, &previous);
    if (previous.sa_sigaction != &report_host_access) previous_action_ = previous;
  }

  void protect(int protection) {
    const auto used_bytes = static_cast<std::size_t>(device_top_ - range_);
    const std::size_t bytes = (used_bytes + huge_page_bytes - 1) / huge_page_bytes * huge_page_bytes;
    if (bytes > 0 && mprotect(range_, bytes, protection) != 0) fault("mprotect failed");
  }

  char* range_ = nullptr;  ///< device memory of all GPUs, then pinned memory
  char* device_top_ = nullptr;
  char* pinned_top_ = nullptr;
  std::map<char*, Allocation> live_, freed_;
  std::vector<std::size_t> used_bytes_;
  std::vector<int> num_live_;  ///< allocations that live in each huge page of device memory
  unsigned long long num_allocations_ = 0;
  std::size_t num_registered_ = 0;  ///< bytes, also of what was given back
  int num_accesses_ = 0;
  struct sigaction previous_action_ {};
};

Memory& memory() {
  static auto* const the_memory = new Memory;
  return *the_memory;
}

void report_host_access(int signal, siginfo_t* info, void* context) {
  if (memory().is_device(info->si_addr)) {
    fault("the host touched " + describe_address(info->si_addr) + " outside of the GPU's work");
  }
  const struct sigaction& previous = memory().previous_action();
  if ((previous.sa_flags & SA_SIGINFO) != 0 && previous.sa_sigaction != nullptr) {
    previous.sa_sigaction(signal, info, context);
  } else if (previous.sa_handler != SIG_DFL && previous.sa_handler != SIG_IGN) {
    previous.sa_handler(signal);
  } else {
    std::signal(signal, SIG_DFL);  // the instruction runs again, and ends the program
  }
}

}  // namespace

void* allocate(MemoryKind kind, int device, std::size_t bytes) { return memory().allocate(kind, device, bytes); }
bool release(MemoryKind kind, void* begin) { return memory().release(kind, begin); }
bool register_host(void* begin, std::size_t bytes) { return memory().add_host(begin, bytes); }
bool unregister_host(void* begin) { return memory().remove_host(begin); }
const Allocation* find_allocation(const void* address) { return memory().find(address); }
bool is_gpu_address(const void* address) { return memory().contains(address); }
std::size_t free_device_bytes(int device) { return memory().free_bytes(device); }

std::string describe_address(const void* address) {
  bool is_freed = false;
  const Allocation* nearest = memory().find_nearest(address, is_freed);
  if (nearest == nullptr) {
    return memory().contains(address) ? "memory of the GPU that was never allocated" : "ordinary host memory";
  }
  return "byte " + std::to_string(static_cast<const char*>(address) - nearest->begin) + " of the " +
         (is_freed ? "freed " : "") + std::to_string(nearest->bytes) + " bytes of " +
         (nearest->kind == MemoryKind::device ? "device" : "pinned") + " allocation " + std::to_string(nearest->number);
}

bool has_shadow(const void* address) { return memory().contains(address) || memory().find(address) != nullptr; }

std::size_t shadow_index(const void* address) {
  if (!memory().contains(address)) {
    const Allocation& registered = *memory().find(address);
    return registered.shadow_begin + static_cast<std::size_t>(static_cast<const char*>(address) - registered.begin) / 2;
  }
  return static_cast<std::size_t>(static_cast<const char*>(address) - memory().begin()) / 2;
}
std::size_t num_shadow_cells() { return (device_range_bytes + pinned_range_bytes + registered_bytes) / 2; }

DeviceMemoryAccess::DeviceMemoryAccess() { memory().begin_access(); }
DeviceMemoryAccess::~DeviceMemoryAccess() { memory().end_access(); }

}  // namespace sft::emulation
