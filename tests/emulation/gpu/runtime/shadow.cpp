// SPDX-License-Identifier: Apache-2.0
#include "runtime/shadow.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <bit>
#include <map>
#include <unordered_map>

#include "runtime/block_state.hpp"
#include "runtime/device_properties.hpp"
#include "runtime/memory.hpp"
#include "runtime/running.hpp"
#include "runtime/source_line.hpp"
#include "runtime/stream_queue.hpp"

namespace sft::emulation {

constinit thread_local Running running;

namespace {

/// One access, or the latest of several: all zero for none.
struct Record {
  std::uint64_t run : 30;
  std::uint64_t clock : 18;
  std::uint64_t thread : 10;
  std::uint64_t bytes : 2;  ///< which of the two
  std::uint64_t is_atomic : 1;
  std::uint64_t several_threads : 1;  ///< others of its warp too, not ordered among themselves
  std::uint64_t several_warps : 1;    ///< others of its block too
  std::uint64_t several_blocks : 1;   ///< others of its task too
};
static_assert(sizeof(Record) == 8);
constexpr std::uint32_t max_run = (1U << 30) - 1, warp_size = 32;

struct Cell {
  Record write, read;
};
std::uint64_t bits_of(const Record& record) { return std::bit_cast<std::uint64_t>(record); }

struct Task {
  std::uint32_t first_run;
  std::size_t stream;
  std::uint64_t index;
  std::string name;
};

/// The runs [begin, end) of a task that comes before the current one; none while end is 0.
struct OrderedRuns {
  std::uint32_t begin = 0, end = 0;
};
constexpr std::size_t num_last_ordered = 4;  ///< a kernel reads the results of a few others

struct Shadow {
  Cell* gpu = nullptr;  ///< by shadow_index
  std::vector<Cell> shared = std::vector<Cell>(max_shared_bytes_per_block / 2 + 1);
  std::uint32_t last_run = 0;
  std::vector<Task> tasks{{0, 0, 0, {}}};  ///< in the order of their first runs
  Task current{};
  const Clock* clock = nullptr;
  std::array<OrderedRuns, num_last_ordered> last_ordered;
  std::size_t oldest_ordered = 0;
  int device = 0;
  /// Reads that the cell's reader does not come after: by other tasks, and of the other byte.
  std::unordered_map<std::size_t, std::vector<Record>> other_readers;
  /// By address of an atomic: the runs of this task that released there; and those that the current run has seen.
  std::map<const void*, std::vector<std::uint32_t>> releases;
  std::vector<std::uint32_t> acquired;
  std::uint32_t acquired_by = 0;
  const Allocation* last_allocation = nullptr;

  Shadow() {
    void* cells = mmap(nullptr, num_shadow_cells() * sizeof(Cell), PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (cells == MAP_FAILED) fault("no range of addresses for the emulation's record of accesses");
    gpu = static_cast<Cell*>(cells);
  }
};

Shadow& shadow() {
  static auto* const the_shadow = new Shadow;
  return *the_shadow;
}

std::vector<Task>::const_iterator task_of(std::uint32_t run) {
  const auto& tasks = shadow().tasks;
  return std::upper_bound(tasks.begin(), tasks.end(), run,
                          [](std::uint32_t number, const Task& task) { return number < task.first_run; }) -
         1;
}

/// Whether the task of an earlier run comes before the current one.
bool is_ordered_run(std::uint32_t run) {
  Shadow& self = shadow();
  for (const OrderedRuns& last : self.last_ordered) {
    if (run >= last.begin && run < last.end) return true;
  }
  const auto task = task_of(run);
  const bool is_same_stream = task->stream == self.current.stream;
  if (!is_same_stream && count_of(*self.clock, task->stream) < task->index) return false;
  const bool is_last = task + 1 == self.tasks.end();
  self.last_ordered[self.oldest_ordered] = {task->first_run, is_last ? max_run : (task + 1)->first_run};
  self.oldest_ordered = (self.oldest_ordered + 1) % num_last_ordered;
  return true;
}

/// Whether the access `earlier` of this run comes before what the running thread does now.
bool is_ordered_thread(const Record& earlier) {
  if (earlier.clock < running.last_block_barrier) return true;
  if (earlier.several_warps != 0) return false;
  const std::uint32_t warp = running.thread / warp_size;
  if (earlier.thread / warp_size == warp && earlier.clock < running.last_warp_barrier[warp]) return true;
  return earlier.several_threads == 0 && earlier.thread == running.thread;
}

bool is_of_task(const Record& record) { return record.run >= running.first_run_of_task && record.run <= running.run; }

bool is_acquired(std::uint32_t run) {
  const auto& acquired = shadow().acquired;
  return shadow().acquired_by == running.run && std::find(acquired.begin(), acquired.end(), run) != acquired.end();
}

const char* verb_of(Access access) {
  return access == Access::read ? "reads" : access == Access::write ? "writes" : "atomically changes";
}

std::string describe_operand(const void* begin) {
  constexpr std::ptrdiff_t near_bytes = 1024;
  const auto* const first = static_cast<const char*>(begin);
  const bool has_shared = running.shared_begin != nullptr;
  if (!has_shared || first < running.shared_begin - near_bytes || first >= running.shared_end + near_bytes) {
    return describe_address(begin);
  }
  return "byte " + std::to_string(first - running.shared_begin) + " of the " +
         std::to_string(running.shared_end - running.shared_begin) + " bytes of shared memory";
}

[[noreturn]] void refuse(const char* what, Access access, const void* begin, std::size_t bytes,
                         const std::string& reason) {
  fault(where_running() + " " + verb_of(access) + " " + std::to_string(bytes) + " bytes at " + describe_operand(begin) +
        (what == nullptr ? "" : std::string(" by ") + what) + ": " + reason + source_line_of_access());
}

enum class Conflict { none, threads, blocks, tasks };

Conflict conflict_with(const Record& earlier, bool is_atomic, std::uint64_t bytes, bool is_shared) {
  if (earlier.run == 0 || (earlier.bytes & bytes) == 0) return Conflict::none;
  if (earlier.run == running.run) {
    if (is_atomic && earlier.is_atomic != 0) return Conflict::none;
    return is_ordered_thread(earlier) ? Conflict::none : Conflict::threads;
  }
  if (is_shared) return Conflict::none;  // of an earlier block
  if (is_of_task(earlier)) {
    if (is_atomic && earlier.is_atomic != 0) return Conflict::none;
    return is_acquired(static_cast<std::uint32_t>(earlier.run)) ? Conflict::none : Conflict::blocks;
  }
  return is_ordered_run(static_cast<std::uint32_t>(earlier.run)) ? Conflict::none : Conflict::tasks;
}

[[noreturn]] void report(Conflict conflict, const Record& earlier, Access access, const void* begin, std::size_t bytes,
                         const char* what, bool was_write) {
  const std::string did = was_write ? "wrote" : "read";
  if (conflict == Conflict::threads) {
    const std::string who =
        earlier.several_threads != 0 || earlier.several_warps != 0
            ? "several threads, the last of them " + name_of_thread(static_cast<std::uint32_t>(earlier.thread)) + ","
            : name_of_thread(static_cast<std::uint32_t>(earlier.thread));
    refuse(what, access, begin, bytes, "a race, " + who + " " + did + " it and no barrier lies between");
  }
  if (conflict == Conflict::blocks) {
    refuse(what, access, begin, bytes, "a race, another block of this kernel " + did + " it");
  }
  const Task& task = *task_of(static_cast<std::uint32_t>(earlier.run));
  refuse(what, access, begin, bytes,
         "a race between streams, `" + task.name + "` of stream " + std::to_string(task.stream) + " " + did +
             " it and no event orders it before this task of stream " + std::to_string(shadow().current.stream));
}

Record now(Access access, std::uint64_t bytes) {
  Record record{};
  record.run = running.run & max_run;
  record.clock = running.clock & 0x3ffffU;
  record.thread = running.thread & 0x3ffU;
  record.bytes = bytes & 3U;
  record.is_atomic = access == Access::atomic ? 1 : 0;
  return record;
}

/// The reader record after one more read. Whether the cell alone says what becomes of it.
bool add_reader(Cell& cell, std::size_t index, const Record& reader, bool is_shared) {
  Record next = reader;
  bool is_of_cell_alone = true;
  const Record& old = cell.read;
  const auto remember_other = [&] {
    std::vector<Record>& others = shadow().other_readers[index];
    std::erase_if(others, [](const Record& other) { return is_ordered_run(static_cast<std::uint32_t>(other.run)); });
    others.push_back(old);
    is_of_cell_alone = false;
  };
  const bool is_of_other_byte = old.run != 0 && !is_shared && (old.bytes & reader.bytes) == 0;
  if (is_of_other_byte && is_of_task(old) && !(old.run == running.run && is_ordered_thread(old))) {
    remember_other();
  } else if (old.run == running.run) {
    if (!is_ordered_thread(old)) {
      next.several_threads = 1;
      next.several_warps = old.several_warps != 0 || old.thread / warp_size != running.thread / warp_size;
    }
    next.several_blocks = old.several_blocks;
    next.bytes = (old.bytes | reader.bytes) & 3U;
  } else if (old.run != 0 && !is_shared) {
    if (is_of_task(old)) {
      next.several_blocks = 1;
    } else if (!is_ordered_run(static_cast<std::uint32_t>(old.run))) {
      remember_other();
    }
  }
  cell.read = next;
  return is_of_cell_alone;
}

/// Checks and records an access to one cell. Whether an equal cell would become equal to this one.
bool touch(Cell& cell, std::size_t index, std::uint64_t cell_bytes, bool is_shared, const void* begin,
           std::size_t bytes, Access access, const char* what) {
  const bool is_atomic = access == Access::atomic;
  if (const Conflict c = conflict_with(cell.write, is_atomic, cell_bytes, is_shared); c != Conflict::none) {
    report(c, cell.write, access, begin, bytes, what, true);
  }
  if (access == Access::read) {
    return add_reader(cell, index, now(access, cell_bytes), is_shared);
  }
  if (const Conflict c = conflict_with(cell.read, false, cell_bytes, is_shared); c != Conflict::none) {
    report(c, cell.read, access, begin, bytes, what, false);
  }
  if (!is_shared) {
    const bool is_read_by_other_blocks = cell.read.several_blocks != 0 && is_of_task(cell.read);
    if (is_read_by_other_blocks) report(Conflict::blocks, cell.read, access, begin, bytes, what, false);
    if (!shadow().other_readers.empty()) {
      if (const auto found = shadow().other_readers.find(index); found != shadow().other_readers.end()) {
        for (const Record& reader : found->second) {
          if (const Conflict c = conflict_with(reader, false, cell_bytes, false); c != Conflict::none) {
            report(c, reader, access, begin, bytes, what, false);
          }
        }
        std::erase_if(found->second, [&](const Record& reader) { return (reader.bytes & cell_bytes) != 0; });
        if (found->second.empty()) shadow().other_readers.erase(found);
      }
    }
  }
  cell.write = now(access, cell_bytes);
  cell.read = Record{};
  return is_shared || shadow().other_readers.empty();
}

/// Calls touch for each cell of [begin, begin + bytes); first_index is that of its first byte.
void touch_range(Cell* cells, std::size_t first_index, bool is_shared, const void* begin, std::size_t bytes,
                 Access access, const char* what) {
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  std::size_t index = first_index;
  std::size_t left = bytes;
  if ((address & 1U) != 0) {
    touch(cells[index], index, 2, is_shared, begin, bytes, access, what);
    ++index;
    --left;
  }
  // Neighbouring cells mostly have the same history. Records are moved one by one, as they are written: a load of a
  // whole cell would wait until both have come to the cache.
  std::uint64_t write_before = 0, read_before = 0;
  Record write_after{}, read_after{};
  bool is_known = false;
  for (; left >= 2; left -= 2, ++index) {
    Cell& cell = cells[index];
    const std::uint64_t write = bits_of(cell.write), read = bits_of(cell.read);
    if (is_known && write == write_before && read == read_before) {
      cell.write = write_after;
      cell.read = read_after;
      continue;
    }
    write_before = write;
    read_before = read;
    is_known = touch(cell, index, 3, is_shared, begin, bytes, access, what);
    write_after = cell.write;
    read_after = cell.read;
  }
  if (left == 1) touch(cells[index], index, 1, is_shared, begin, bytes, access, what);
}

const Allocation* allocation_of(const void* begin, std::size_t bytes) {
  const auto* const first = static_cast<const char*>(begin);
  const auto holds = [&](const Allocation& allocation) {
    return first >= allocation.begin && first + bytes <= allocation.begin + allocation.bytes;
  };
  const Allocation*& last = shadow().last_allocation;
  if (last != nullptr && holds(*last)) return last;
  const Allocation* found = find_allocation(begin);
  if (found == nullptr || !holds(*found)) return nullptr;
  last = found;
  return found;
}

}  // namespace

void join(Clock& clock, const Clock& other) {
  if (clock.size() < other.size()) clock.resize(other.size());
  for (std::size_t i = 0; i < other.size(); ++i) clock[i] = std::max(clock[i], other[i]);
}

std::uint64_t count_of(const Clock& clock, std::size_t stream) { return stream < clock.size() ? clock[stream] : 0; }

void begin_task(std::size_t stream, std::uint64_t index, const Clock& clock, int device, const std::string& name,
                std::uint32_t& run) {
  Shadow& self = shadow();
  self.clock = &clock;
  self.device = device;
  self.last_allocation = nullptr;
  self.last_ordered = {};
  self.releases.clear();
  const bool is_first_try = run == 0;
  if (is_first_try) run = next_run();
  self.current = {run, stream, index, name};
  if (is_first_try) self.tasks.push_back(self.current);
  running.run = running.first_run_of_task = run;
  running.thread = running.clock = running.last_block_barrier = 0;
}

void end_task() {
  shadow().clock = nullptr;
  running.run = 0;
}

const std::string& name_of_task() {
  static const std::string none;
  return shadow().clock == nullptr ? none : shadow().current.name;
}

std::uint32_t next_run() {
  if (shadow().last_run == max_run) fault("more blocks than the emulation can count");
  return ++shadow().last_run;
}

void check_access(const void* begin, std::size_t bytes, std::size_t alignment, Access access, const char* what) {
  if (bytes == 0) return;
  const auto* const first = static_cast<const char*>(begin);
  const char* const last = first + bytes;
  if (first >= running.stack_begin && last <= running.stack_end) return;
  if (access == Access::read && running.shared_begin != nullptr) {
    if (is_of_program(begin, bytes)) return;
    if (first >= running.arguments_begin && last <= running.arguments_end) return;
  }
  const bool is_misaligned = reinterpret_cast<std::uintptr_t>(begin) % alignment != 0;
  if (first >= running.shared_begin && last <= running.shared_end) {
    if (is_misaligned) refuse(what, access, begin, bytes, "misaligned");
    touch_range(shadow().shared.data(), static_cast<std::size_t>(first - running.shared_begin) / 2, true, begin, bytes,
                access, what);
    return;
  }
  if (const Allocation* allocation = allocation_of(begin, bytes); allocation != nullptr) {
    if (is_misaligned) refuse(what, access, begin, bytes, "misaligned");
    if (allocation->kind == MemoryKind::device && allocation->device != shadow().device) {
      refuse(what, access, begin, bytes, "memory of another GPU");
    }
    if (has_shadow(begin)) touch_range(shadow().gpu, shadow_index(begin), false, begin, bytes, access, what);
    return;
  }
  refuse(what, access, begin, bytes, "not within the memory that it may use");
}

void forget_accesses(const void* begin, std::size_t bytes) {
  constexpr std::uintptr_t page_bytes = 4096;
  const std::size_t first = shadow_index(begin);
  const auto first_page = (reinterpret_cast<std::uintptr_t>(shadow().gpu + first) + page_bytes - 1) / page_bytes;
  const auto last_page = reinterpret_cast<std::uintptr_t>(shadow().gpu + first + bytes / 2) / page_bytes;
  if (last_page <= first_page) return;
  madvise(reinterpret_cast<void*>(first_page * page_bytes), (last_page - first_page) * page_bytes, MADV_DONTNEED);
}

void exchange_order(const void* address, bool has_fence) {
  Shadow& self = shadow();
  if (self.acquired_by != running.run) {
    self.acquired.clear();
    self.acquired_by = running.run;
  }
  std::vector<std::uint32_t>& runs = self.releases[address];
  self.acquired.insert(self.acquired.end(), runs.begin(), runs.end());
  const bool is_new = runs.empty() || runs.back() != running.run;
  if (has_fence && is_new) runs.push_back(running.run);
}

void note_read(const void* begin, std::size_t bytes) { check_access(begin, bytes, 1, Access::read, nullptr); }
void note_write(const void* begin, std::size_t bytes) { check_access(begin, bytes, 1, Access::write, nullptr); }

}  // namespace sft::emulation
