// SPDX-License-Identifier: Apache-2.0
#include "runtime/scheduler.hpp"

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <thread>

#include "runtime/device_properties.hpp"
#include "runtime/kernel_fault.hpp"
#include "runtime/memory.hpp"
#include "runtime/state.hpp"
#include "runtime/stream_queue.hpp"

namespace sft::emulation {

namespace {

/// When no task can run, those that are queued wait for other processes, which need the processor.
constexpr useconds_t wait_us = 50;

/// Handles are never freed, so that a destroyed one is known when it is used again.
struct Scheduler {
  std::vector<std::unique_ptr<CUstream_st>> streams;
  std::vector<std::unique_ptr<CUevent_st>> events;
  std::set<const void*> stream_handles, event_handles;
  std::vector<CUstream_st*> default_streams;  ///< by device, made when used
  Clock host_clock;
  /// Which stream goes first: drawn anew from time to time, so that one may stay behind the others for long.
  std::vector<std::uint64_t> ranks;
  bool is_running = false;
  std::atomic<std::uint64_t> num_calls{0};
  std::thread::id owner;  ///< the thread that made the first stream
  bool has_background = false;
};

Scheduler& scheduler() {
  static auto* const the_scheduler = new Scheduler;
  return *the_scheduler;
}

thread_local std::optional<int> device_of_thread;  ///< that it chose
std::atomic<bool> is_any_device_chosen{false};

bool is_default(const CUstream_st& stream) {
  const auto& defaults = scheduler().default_streams;
  return std::find(defaults.begin(), defaults.end(), &stream) != defaults.end();
}

bool is_ready(const CUstream_st& stream) {
  if (stream.queue.empty()) return false;
  const auto& after = stream.queue.front().after;
  return std::all_of(after.begin(), after.end(), [](const StreamPosition& position) { return is_finished(position); });
}

void draw_ranks() {
  auto& ranks = scheduler().ranks;
  ranks.resize(scheduler().streams.size());
  for (auto& rank : ranks) rank = random_below(1ULL << 62);
}

/// Tries the head of one stream. True when it is finished.
bool try_head(CUstream_st& stream) {
  StreamTask& task = stream.queue.front();
  scheduler().is_running = true;
  begin_task(stream.number, stream.num_finished + 1, task.clock, stream.device, task.name, task.run);
  const bool is_done = task.try_run();
  end_task();
  scheduler().is_running = false;
  if (!is_done) return false;
  stream.queue.pop_front();
  ++stream.num_finished;
  return true;
}

/// Runs one task of the stream that goes first among those that can; false when none can, or a kernel broke off. Device
/// memory is readable.
bool run_one() {
  if (has_fault()) return false;
  Scheduler& self = scheduler();
  constexpr unsigned long long tasks_per_draw = 4;
  if (self.ranks.size() != self.streams.size() || random_below(tasks_per_draw) == 0) draw_ranks();
  std::vector<CUstream_st*> ready;
  for (const auto& stream : self.streams) {
    if (is_ready(*stream)) ready.push_back(stream.get());
  }
  std::sort(ready.begin(), ready.end(), [&self](const CUstream_st* a, const CUstream_st* b) {
    return self.ranks[a->number] < self.ranks[b->number];
  });
  return std::any_of(ready.begin(), ready.end(), [](CUstream_st* stream) { return try_head(*stream); });
}

void require_no_task(const char* call) {
  if (scheduler().is_running) fault(std::string(call) + " was called by queued work, which may make no CUDA call");
}

}  // namespace

std::recursive_mutex& mutex() {
  static auto* const the_mutex = new std::recursive_mutex;
  return *the_mutex;
}

int current_device() { return device_of_thread.value_or(0); }

void set_current_device(int device) {
  device_of_thread = device;
  is_any_device_chosen = true;
}

const std::string& connections_at_first_call() {
  static const auto* const found = [] {
    const char* const value = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
    return new std::string(value == nullptr ? "" : value);
  }();
  return *found;
}

void require_chosen_device(const char* call) {
  (void)connections_at_first_call();
  if (device_of_thread.has_value() || !is_any_device_chosen) return;
  fault(std::string(call) + " was called by a thread that has chosen no device (cudaSetDevice), as another has");
}

CUstream_st* make_stream(unsigned flags, int priority) {
  Scheduler& self = scheduler();
  require_chosen_device("cudaStreamCreate");
  if (self.streams.empty()) self.owner = std::this_thread::get_id();
  self.streams.push_back(std::make_unique<CUstream_st>());
  CUstream_st& stream = *self.streams.back();
  stream.number = self.streams.size() - 1;
  stream.device = current_device();
  stream.flags = flags;
  stream.priority = priority;
  self.stream_handles.insert(&stream);
  return &stream;
}

CUevent_st* make_event(unsigned flags) {
  Scheduler& self = scheduler();
  require_chosen_device("cudaEventCreate");
  self.events.push_back(std::make_unique<CUevent_st>());
  self.events.back()->device = current_device();
  self.events.back()->flags = flags;
  self.event_handles.insert(self.events.back().get());
  return self.events.back().get();
}

CUstream_st& stream_of(cudaStream_t handle, const char* call) {
  Scheduler& self = scheduler();
  ++self.num_calls;
  require_no_task(call);
  require_chosen_device(call);
  if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread) {
    const auto device = static_cast<std::size_t>(current_device());
    if (self.default_streams.size() <= device) self.default_streams.resize(device + 1);
    if (self.default_streams[device] == nullptr) self.default_streams[device] = make_stream(cudaStreamDefault, 0);
    return *self.default_streams[device];
  }
  if (self.stream_handles.count(handle) == 0) fault(std::string(call) + " was given a stream that never was");
  if (handle->is_destroyed) fault(std::string(call) + " was given a destroyed stream");
  return *handle;
}

CUevent_st& event_of(cudaEvent_t handle, const char* call) {
  Scheduler& self = scheduler();
  ++self.num_calls;
  require_no_task(call);
  require_chosen_device(call);
  if (self.event_handles.count(handle) == 0) fault(std::string(call) + " was given an event that never was");
  if (handle->is_destroyed) fault(std::string(call) + " was given a destroyed event");
  return *handle;
}

void push(CUstream_st& stream, std::string name, std::function<bool()> try_run) {
  Scheduler& self = scheduler();
  if (stream.capture != nullptr) {
    if (stream.capture->thread != std::this_thread::get_id()) {
      fault(name + " was queued on a stream that another thread captures");
    }
    stream.capture->graph->nodes.push_back({std::move(name), std::move(try_run)});
    return;
  }
  if ((stream.flags & cudaStreamNonBlocking) == 0) {
    require_no_capture(name.c_str());
    // The default stream and the blocking streams of its device wait for each other.
    const bool of_default = is_default(stream);
    for (const auto& other : self.streams) {
      const bool is_blocking = other->device == stream.device && (other->flags & cudaStreamNonBlocking) == 0;
      if (is_blocking && is_default(*other) != of_default) wait(stream, position_of(*other));
    }
  }
  StreamTask task{std::move(name), std::move(try_run), std::move(stream.waits), {}, 0};
  stream.waits.clear();
  for (const StreamPosition& position : task.after) join(stream.clock, position.clock);
  join(stream.clock, self.host_clock);
  ++stream.num_queued;
  if (stream.clock.size() <= stream.number) stream.clock.resize(stream.number + 1);
  stream.clock[stream.number] = stream.num_queued;
  task.clock = stream.clock;
  stream.queue.push_back(std::move(task));
}

void require_not_captured(const CUstream_st& stream, const char* call) {
  if (stream.capture != nullptr) fault(std::string(call) + " of a stream that is captured");
}

void require_no_capture(const char* call) {
  for (const auto& stream : scheduler().streams) {
    if (stream->capture != nullptr && stream->capture->thread == std::this_thread::get_id()) {
      fault(std::string(call) + " while this thread captures a stream");
    }
  }
}

StreamPosition position_of(CUstream_st& stream) {
  if (!stream.waits.empty()) push(stream, "wait", [] { return true; });
  return {&stream, stream.num_queued, stream.clock};
}

void wait(CUstream_st& stream, const StreamPosition& position) {
  if (position.stream != nullptr && position.stream != &stream) stream.waits.push_back(position);
}

bool is_finished(const StreamPosition& position) {
  return position.stream == nullptr || position.stream->num_finished >= position.count;
}

void finish(const StreamPosition& position) {
  require_no_capture("a wait of the host");
  const DeviceMemoryAccess access;
  while (!is_finished(position) && !has_fault()) {
    if (!run_one()) usleep(wait_us);
  }
  join(scheduler().host_clock, position.clock);
}

void finish_device(int device) {
  for (const auto& stream : scheduler().streams) {
    if (stream->device == device) finish(position_of(*stream));
  }
}

bool query(const StreamPosition& position) {
  // What a watching thread asks, and when, changes nothing.
  if (std::this_thread::get_id() != scheduler().owner) return is_finished(position);
  constexpr unsigned long long max_tasks = 8;
  const unsigned long long num_tasks = random_below(max_tasks);
  if (num_tasks > 0 && !is_finished(position)) {
    const DeviceMemoryAccess access;
    bool has_run = true;
    for (unsigned long long i = 0; i < num_tasks && has_run && !is_finished(position); ++i) has_run = run_one();
    if (!has_run) usleep(wait_us);
  }
  if (!is_finished(position)) return false;
  join(scheduler().host_clock, position.clock);
  return true;
}

void enqueue(cudaStream_t stream, std::string name, std::function<bool()> try_run) {
  const Lock lock(mutex());
  push(stream_of(stream, name.c_str()), std::move(name), std::move(try_run));
}

void require_not_captured(cudaStream_t stream, const char* what) {
  const Lock lock(mutex());
  require_not_captured(stream_of(stream, what), what);
}

int device_of(cudaStream_t stream) {
  const Lock lock(mutex());
  return stream_of(stream, "device_of").device;
}

MemoryKind memory_kind(cudaStream_t stream, const void* begin, std::size_t bytes) {
  const Lock lock(mutex());
  const int device = stream_of(stream, "memory_kind").device;
  const Allocation* allocation = find_allocation(begin);
  if (allocation == nullptr) return MemoryKind::unknown;
  const bool is_inside = static_cast<const char*>(begin) + bytes <= allocation->begin + allocation->bytes;
  const bool is_reached = allocation->kind == MemoryKind::pinned || allocation->device == device;
  return is_inside && is_reached ? allocation->kind : MemoryKind::unknown;
}

void run_in_background() {
  const Lock lock(mutex());
  if (scheduler().has_background) return;
  scheduler().has_background = true;
  std::thread([] {
    constexpr auto period = std::chrono::milliseconds(10);
    std::uint64_t calls_before = 0;
    while (true) {
      std::this_thread::sleep_for(period);
      const std::uint64_t calls = scheduler().num_calls;
      const bool is_host_quiet = calls == calls_before;
      calls_before = calls;
      if (!is_host_quiet) continue;
      const std::unique_lock own_turn(mutex(), std::try_to_lock);
      if (!own_turn) continue;
      const DeviceMemoryAccess access;  // ends before the lock does
      while (run_one() && scheduler().num_calls == calls) {
      }
    }
  }).detach();
}

}  // namespace sft::emulation
