// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstring>
#include <string>

#include "runtime/block_state.hpp"
#include "runtime/device_properties.hpp"
#include "runtime/running.hpp"
#include "runtime/shadow.hpp"
#include "runtime/stream_queue.hpp"
#include "runtime/traffic.hpp"

uint3 threadIdx;
uint3 blockIdx;
dim3 blockDim;
dim3 gridDim;

namespace sft::emulation {

namespace {

constexpr std::size_t red_zone_bytes = 1024;
constexpr unsigned char red_zone_byte = 0xa5;
/// Not a number in float, bfloat16 and double.
constexpr unsigned char poison_byte = 0xff;
constexpr std::uint32_t warp_size = 32;

std::string text_of(uint3 index) {
  return "(" + std::to_string(index.x) + ", " + std::to_string(index.y) + ", " + std::to_string(index.z) + ")";
}

std::string text_of(const Meeting& meeting) {
  const std::string file = meeting.site.file;
  return std::string(meeting.name) + " at " + file.substr(file.rfind('/') + 1) + ":" +
         std::to_string(meeting.site.line);
}

/// Of the warps of threads [begin, end).
void end_instructions(std::uint32_t begin, std::uint32_t end) {
  for (std::uint32_t thread = begin; thread < end; thread += warp_size) end_instructions_of(thread / warp_size);
}

bool is_same_text(const char* a, const char* b) { return a == b || std::strcmp(a, b) == 0; }

bool is_same(const Meeting& a, const Meeting& b) {
  return a.of_block == b.of_block && a.mask == b.mask && a.site.line == b.site.line && is_same_text(a.name, b.name) &&
         is_same_text(a.site.file, b.site.file);
}

}  // namespace

Block& block() {
  static auto* const the_block = new Block;
  return *the_block;
}

Block::Block() : shared_(2 * red_zone_bytes + max_shared_bytes_per_block + 128) {}

void Block::run(const KernelLaunch& launch, uint3 index) {
  begin(launch, index);
  run_threads();
  end();
}

void Block::begin(const KernelLaunch& launch, uint3 index) {
  launch_ = &launch;
  blockIdx = index;
  const std::uint32_t num_threads = launch.block.x * launch.block.y * launch.block.z;
  while (fibers_.size() < num_threads) fibers_.push_back(std::make_unique<Fiber>());
  num_ended_ = num_at_block_barrier_ = 0;
  num_waiting_in_warp_.fill(0);
  threads_.resize(num_threads);
  ready_.resize(num_threads);
  indices_.resize(num_threads);
  for (std::uint32_t i = 0; i < num_threads; ++i) {
    const dim3& shape = launch.block;
    indices_[i] = {i % shape.x, i / shape.x % shape.y, i / (shape.x * shape.y)};
    ready_[i] = i;
    BlockThread& thread = threads_[i];
    thread.state = BlockThread::State::ready;
    thread.has_fenced = false;
    thread.uncommitted_copies.clear();
    thread.copy_groups.clear();
    thread.wgmma = {};
    thread.fiber = fibers_[i].get();
    thread.fiber->start(&Block::enter, this);
  }

  auto address = reinterpret_cast<std::uintptr_t>(shared_.data()) + red_zone_bytes;
  address = (address + 127) / 128 * 128;
  running.shared_begin = reinterpret_cast<char*>(address);
  running.shared_end = running.shared_begin + launch.shared_bytes;
  poison_shared_memory();
  running.run = next_run();
  running.clock = running.last_block_barrier = 0;
  std::fill(std::begin(running.last_warp_barrier), std::end(running.last_warp_barrier), 0U);
}

void Block::poison_shared_memory() {
  std::memset(running.shared_begin - red_zone_bytes, red_zone_byte, red_zone_bytes);
  std::memset(running.shared_begin, poison_byte, launch_->shared_bytes);
  std::memset(running.shared_end, red_zone_byte, red_zone_bytes);
}

void Block::check_red_zones() const {
  const auto is_whole = [](const char* zone) {
    return std::all_of(zone, zone + red_zone_bytes,
                       [](char byte) { return static_cast<unsigned char>(byte) == red_zone_byte; });
  };
  if (is_whole(running.shared_begin - red_zone_bytes) && is_whole(running.shared_end)) return;
  fault("kernel " + std::string(launch_->name) + ", block " + text_of(blockIdx) +
        " wrote outside its shared memory of " + std::to_string(launch_->shared_bytes) + " bytes");
}

void Block::enter(void* argument) {
  auto& self = *static_cast<Block*>(argument);
  running.in_kernel = true;
  self.launch_->body(self.launch_->arguments);
  running.in_kernel = false;
  BlockThread& thread = self.current();
  const bool has_copies =
      !thread.uncommitted_copies.empty() || std::any_of(thread.copy_groups.begin(), thread.copy_groups.end(),
                                                        [](const auto& group) { return !group.empty(); });
  if (has_copies) fault(where_running() + " ended before it waited for its cp.async copies");
  if (!thread.wgmma.sums.empty()) fault(where_running() + " ended before it waited for its products");
  thread.state = BlockThread::State::ended;
  ++self.num_ended_;
}

void Block::run_threads() {
  while (!ready_.empty()) {
    const auto pick = static_cast<std::size_t>(random_below(ready_.size()));
    const std::uint32_t thread = ready_[pick];
    ready_[pick] = ready_.back();
    ready_.pop_back();
    resume(thread);
  }
  if (num_ended_ != threads_.size()) report_divergence();
}

void Block::resume(std::uint32_t thread) {
  current_ = thread;
  threadIdx = thread_index(thread);
  running.thread = thread;
  running.stack_begin = threads_[thread].fiber->stack_begin();
  running.stack_end = threads_[thread].fiber->stack_end();
  threads_[thread].fiber->resume();
  running.in_kernel = false;
}

void Block::end() {
  if (is_counting_traffic) end_instructions(0, static_cast<std::uint32_t>(threads_.size()));
  check_red_zones();
  check_products();
  running.shared_begin = running.shared_end = nullptr;
}

void Block::check_copies_are_shown() const {
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    if (!threads_[i].wgmma.has_hidden_copies) continue;
    fault(where_running() + ": wgmma, but " + name_of_thread(static_cast<std::uint32_t>(i)) +
          " has no fence.proxy.async behind the copies it has waited for");
  }
}

void Block::check_products() const {
  constexpr std::uint32_t warpgroup_size = 128;
  for (std::size_t i = 0; i < threads_.size(); ++i) {
    if (threads_[i].wgmma.trace == threads_[i / warpgroup_size * warpgroup_size].wgmma.trace) continue;
    fault("kernel " + std::string(launch_->name) + ", block " + text_of(blockIdx) + ": " +
          name_of_thread(static_cast<std::uint32_t>(i)) +
          " has started other products than the first of its warpgroup");
  }
}

bool Block::meet(const Meeting& meeting) {
  BlockThread& self = current();
  const std::uint32_t lane = current_ % warp_size;
  if (!meeting.of_block && (meeting.mask >> lane & 1U) == 0) {
    fault(where_running() + " is lane " + std::to_string(lane) + " and calls " + text_of(meeting) +
          " with a mask without this lane");
  }
  self.meeting.name = meeting.name;  // (by members: the whole would be read as vectors)
  self.meeting.of_block = meeting.of_block;
  self.meeting.mask = meeting.mask;
  self.meeting.site.file = meeting.site.file;
  self.meeting.site.line = meeting.site.line;
  if (meeting.of_block) ++num_at_block_barrier_;
  if (all_have_come(meeting)) return false;
  self.state = BlockThread::State::waiting;
  if (!meeting.of_block) ++num_waiting_in_warp_[current_ / warp_size];
  self.fiber->yield();
  return true;
}

std::uint32_t Block::group_begin() const {
  return threads_[current_].meeting.of_block ? 0 : current_ / warp_size * warp_size;
}

std::uint32_t Block::group_end() const {
  const auto num_threads = static_cast<std::uint32_t>(threads_.size());
  return threads_[current_].meeting.of_block ? num_threads : std::min(num_threads, group_begin() + warp_size);
}

bool Block::all_have_come(const Meeting& meeting) const {
  if (meeting.of_block && num_at_block_barrier_ < threads_.size()) return false;
  const auto num_lanes = static_cast<std::uint32_t>(__builtin_popcount(meeting.mask));
  if (!meeting.of_block && num_waiting_in_warp_[current_ / warp_size] + 1 < num_lanes) return false;
  const std::uint32_t begin = group_begin(), end = group_end();
  std::uint32_t num_come = 0;
  for (std::uint32_t i = begin; i < end; ++i) {
    if (!meeting.of_block && (meeting.mask >> (i - begin) & 1U) == 0) continue;
    const BlockThread& other = threads_[i];
    if (i != current_ && other.state != BlockThread::State::waiting) return false;
    if (!is_same(other.meeting, meeting)) {
      if (!meeting.of_block) return false;
      report_divergence();
    }
    ++num_come;
  }
  return meeting.of_block || num_come == num_lanes;
}

void Block::complete(bool orders_memory) {
  const Meeting meeting = current().meeting;
  const std::uint32_t begin = group_begin(), end = group_end();
  // Only barriers of all lanes order memory here; a part of a warp that shares memory is not told apart.
  const bool is_whole_warp = static_cast<std::uint32_t>(__builtin_popcount(meeting.mask)) == end - begin;
  if (is_counting_traffic && (meeting.of_block || is_whole_warp)) end_instructions(begin, end);
  if (meeting.of_block) num_at_block_barrier_ = 0;
  for (std::uint32_t i = begin; i < end; ++i) {
    if (!meeting.of_block && (meeting.mask >> (i - begin) & 1U) == 0) continue;
    if (i == current_) continue;
    if (!meeting.of_block) --num_waiting_in_warp_[i / warp_size];
    make_ready(i);
  }
  if (!orders_memory) return;
  ++running.clock;
  if (meeting.of_block) running.last_block_barrier = running.clock;
  constexpr std::uint32_t max_clock = (1U << 18) - 1;  // what a record of the shadow holds
  if (running.clock == max_clock) fault(where_running() + ": more barriers than the emulation can count");
  if (!meeting.of_block && is_whole_warp) running.last_warp_barrier[begin / warp_size] = running.clock;
}

void Block::make_ready(std::uint32_t thread) {
  threads_[thread].state = BlockThread::State::ready;
  ready_.push_back(thread);
}

void Block::report_divergence() const {
  std::string text = "kernel " + std::string(launch_->name) + ", block " + text_of(blockIdx) +
                     ": threads wait for others that do not come:";
  constexpr int max_lines = 8;
  int num_lines = 0;
  std::string previous;
  for (std::uint32_t i = 0; i < threads_.size() && num_lines < max_lines; ++i) {
    const bool has_ended = threads_[i].state == BlockThread::State::ended;
    const std::string state = has_ended ? "has ended" : "waits at " + text_of(threads_[i].meeting);
    if (state == previous) continue;
    text += "\n  thread " + text_of(thread_index(i)) + " and on " + state;
    previous = state;
    ++num_lines;
  }
  fault(text);
}

std::string name_of_thread(std::uint32_t thread) { return "thread " + text_of(block().thread_index(thread)); }

void run_grid(const KernelLaunch& launch) {
  if (is_counting_traffic) begin_traffic_of(launch.name);
  gridDim = launch.grid;
  blockDim = launch.block;
  running.arguments_begin = static_cast<const char*>(launch.arguments);
  running.arguments_end = running.arguments_begin + launch.argument_bytes;
  const auto x = std::uint64_t{launch.grid.x}, y = std::uint64_t{launch.grid.y}, z = std::uint64_t{launch.grid.z};
  std::vector<std::uint64_t> order(x * y * z);
  for (std::uint64_t i = 0; i < order.size(); ++i) {
    const std::uint64_t j = random_below(i + 1);
    order[i] = order[j];
    order[j] = i;
  }
  for (const std::uint64_t index : order) {
    block().run(launch, {static_cast<unsigned>(index % x), static_cast<unsigned>(index / x % y),
                         static_cast<unsigned>(index / (x * y))});
  }
  running.arguments_begin = running.arguments_end = nullptr;
  running.stack_begin = running.stack_end = nullptr;
}

std::string where_running() {
  if (running.shared_begin == nullptr) return "`" + name_of_task() + "`";
  return "kernel " + std::string(block().launch().name) + ", block " + text_of(blockIdx) + ", " +
         name_of_thread(running.thread);
}

}  // namespace sft::emulation
