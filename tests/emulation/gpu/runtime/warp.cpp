// SPDX-License-Identifier: Apache-2.0
// What threads of a block do together.
#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/block_state.hpp"
#include "runtime/running.hpp"
#include "runtime/shadow.hpp"
#include "runtime/stream_queue.hpp"
#include "runtime/traffic.hpp"

namespace sft::emulation {

namespace {

constexpr std::uint32_t warp_size = 32;

void require_kernel(const char* name) {
  if (running.shared_begin == nullptr) fault(std::string(name) + " was called outside a kernel");
}

/// The thread meets the others of its block or warp; whoever comes last runs `compute` before all go on.
template <class Compute>
void meet(const Meeting& meeting, bool orders_memory, const Compute& compute) {
  require_kernel(meeting.name);
  const InRuntime in_runtime;
  if (block().meet(meeting)) return;
  compute();
  block().complete(orders_memory);
}

/// Whether lane `lane` of the current warp takes part in the meeting under way.
bool is_lane(unsigned mask, std::uint32_t lane) {
  return (mask >> lane & 1U) != 0 && block().group_begin() + lane < block().group_end();
}

}  // namespace

unsigned char* shared_memory_begin() {
  require_kernel("shared_memory");
  return reinterpret_cast<unsigned char*>(running.shared_begin);
}

void block_barrier(Site site) {
  meet({"__syncthreads", true, 0, site}, true, [] {});
}

int block_vote(Vote vote, bool predicate, Site site) {
  const char* name = vote == Vote::count ? "__syncthreads_count"
                     : vote == Vote::all ? "__syncthreads_and"
                                         : "__syncthreads_or";
  require_kernel(name);
  BlockThread& self = block().current();
  self.predicate = predicate;
  meet({name, true, 0, site}, true, [vote] {
    std::uint32_t count = 0;
    const std::uint32_t num_threads = block().group_end();
    for (std::uint32_t i = 0; i < num_threads; ++i) count += block().thread(i).predicate ? 1U : 0U;
    const std::uint32_t result = vote == Vote::count ? count
                                 : vote == Vote::all ? std::uint32_t{count == num_threads}
                                                     : std::uint32_t{count > 0};
    for (std::uint32_t i = 0; i < num_threads; ++i) block().thread(i).result = result;
  });
  return static_cast<int>(self.result);
}

void warp_barrier(unsigned mask, Site site) {
  meet({"__syncwarp", false, mask, site}, true, [] {});
}

int current_lane() { return static_cast<int>(running.thread % warp_size); }

std::uint64_t warp_shuffle(const char* name, unsigned mask, std::uint64_t bits, int source_lane, Site site) {
  require_kernel(name);
  BlockThread& self = block().current();
  self.bits = bits;
  self.source_lane = source_lane;
  meet({name, false, mask, site}, false, [name, mask] {
    const std::uint32_t begin = block().group_begin();
    for (std::uint32_t lane = 0; lane < warp_size; ++lane) {
      if (!is_lane(mask, lane)) continue;
      BlockThread& reader = block().thread(begin + lane);
      if (!is_lane(mask, static_cast<std::uint32_t>(reader.source_lane))) {
        fault(where_running() + ": lane " + std::to_string(lane) + " reads by " + name + " from lane " +
              std::to_string(reader.source_lane) + ", which does not take part");
      }
      reader.result = block().thread(begin + static_cast<std::uint32_t>(reader.source_lane)).bits;
    }
  });
  return self.result;
}

unsigned warp_ballot(const char* name, unsigned mask, bool predicate, Site site) {
  require_kernel(name);
  BlockThread& self = block().current();
  self.predicate = predicate;
  meet({name, false, mask, site}, false, [mask] {
    const std::uint32_t begin = block().group_begin();
    std::uint64_t votes = 0;
    for (std::uint32_t lane = 0; lane < warp_size; ++lane) {
      if (is_lane(mask, lane) && block().thread(begin + lane).predicate) votes |= std::uint64_t{1} << lane;
    }
    for (std::uint32_t lane = 0; lane < warp_size; ++lane) {
      if (is_lane(mask, lane)) block().thread(begin + lane).result = votes;
    }
  });
  return static_cast<unsigned>(self.result);
}

void warp_collective(const char* name, void* lane, void (*work)(void* const* lanes), Site site) {
  require_kernel(name);
  block().current().collective = lane;
  meet({name, false, ~0U, site}, false, [work] {
    void* lanes[warp_size];
    const std::uint32_t begin = block().group_begin();
    for (std::uint32_t i = 0; i < warp_size; ++i) lanes[i] = block().thread(begin + i).collective;
    work(lanes);
  });
}

void check_read(const void* begin, std::size_t bytes, std::size_t alignment, const char* what) {
  require_kernel(what);
  check_access(begin, bytes, alignment, Access::read, what);
  if (is_counting_traffic) count_access(begin, bytes, Access::read, __builtin_return_address(0));
}

void check_write(void* begin, std::size_t bytes, std::size_t alignment, const char* what) {
  require_kernel(what);
  check_access(begin, bytes, alignment, Access::write, what);
  if (is_counting_traffic) count_access(begin, bytes, Access::write, __builtin_return_address(0));
}

void defer_copy(void* destination, const void* source, std::size_t bytes, std::size_t source_bytes) {
  constexpr const char* name = "cp.async";
  require_kernel(name);
  const InRuntime in_runtime;
  if ((bytes != 4 && bytes != 8 && bytes != 16) || source_bytes > bytes) {
    fault(where_running() + ": cp.async of " + std::to_string(source_bytes) + " to " + std::to_string(bytes) +
          " bytes (it copies 4, 8 or 16)");
  }
  auto* const to = static_cast<char*>(destination);
  if (to < running.shared_begin || to + bytes > running.shared_end) {
    fault(where_running() + ": cp.async to memory that is not the block's shared memory");
  }
  check_access(destination, bytes, bytes, Access::write, name);
  if (reinterpret_cast<std::uintptr_t>(source) % bytes != 0) {  // also where nothing is read there
    fault(where_running() + ": cp.async of " + std::to_string(bytes) + " bytes from a misaligned address");
  }
  check_access(source, source_bytes, bytes, Access::read, name);
  if (is_counting_traffic) {
    count_access(destination, bytes, Access::write, __builtin_return_address(0));
    count_access(source, source_bytes, Access::read, __builtin_return_address(0));
  }
  std::memset(destination, 0xff, bytes);
  block().current().uncommitted_copies.push_back({to, static_cast<const char*>(source), bytes, source_bytes});
}

void commit_copies() {
  require_kernel("cp.async.commit_group");
  const InRuntime in_runtime;
  BlockThread& self = block().current();
  self.copy_groups.push_back(std::move(self.uncommitted_copies));
  self.uncommitted_copies.clear();
}

void wait_copies(int num_groups) {
  constexpr const char* name = "cp.async.wait_group";
  require_kernel(name);
  const InRuntime in_runtime;
  auto& groups = block().current().copy_groups;
  const std::size_t num_left = std::min(groups.size(), static_cast<std::size_t>(num_groups));
  const auto first_left = groups.end() - static_cast<std::ptrdiff_t>(num_left);
  for (auto group = groups.begin(); group != first_left; ++group) {
    if (!group->empty()) block().current().wgmma.has_hidden_copies = true;
    for (const DeferredCopy& copy : *group) {
      check_access(copy.source, copy.source_bytes, 1, Access::read, name);
      check_access(copy.destination, copy.bytes, 1, Access::write, name);
      std::memcpy(copy.destination, copy.source, copy.source_bytes);
      std::memset(copy.destination + copy.source_bytes, 0, copy.bytes - copy.source_bytes);
    }
  }
  groups.erase(groups.begin(), first_left);
}

}  // namespace sft::emulation
