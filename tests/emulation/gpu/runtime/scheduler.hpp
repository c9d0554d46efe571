// SPDX-License-Identifier: Apache-2.0
#pragma once
// Streams and events: who may run next, and what the host waits for. All calls hold mutex().

#include <cuda_runtime_api.h>

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "runtime/shadow.hpp"

/// A position in a stream: its first `count` tasks.
struct StreamPosition {
  CUstream_st* stream = nullptr;
  std::uint64_t count = 0;
  sft::emulation::Clock clock;  ///< what is known once these tasks are finished
};

struct StreamTask {
  std::string name;
  std::function<bool()> try_run;
  std::vector<StreamPosition> after;
  sft::emulation::Clock clock;
  std::uint32_t run = 0;
};

/// What a graph has: tasks of one stream, in order.
struct CUgraph_st {
  struct Node {
    std::string name;
    std::function<bool()> try_run;  ///< may be run again and again
  };
  int device;
  std::vector<Node> nodes;
  bool is_destroyed = false;
};

struct CUgraphExec_st {
  int device;
  std::vector<CUgraph_st::Node> nodes;
  bool is_destroyed = false;
};

/// Of a stream between cudaStreamBeginCapture and cudaStreamEndCapture.
struct StreamCapture {
  CUgraph_st* graph;
  std::thread::id thread;  ///< that began it
  bool is_relaxed;
};

struct CUstream_st {
  std::size_t number;
  int device;
  unsigned flags;
  int priority;
  bool is_destroyed = false;
  std::deque<StreamTask> queue;
  std::uint64_t num_queued = 0, num_finished = 0;
  /// Waits that the next task takes over, and what all tasks queued so far know.
  std::vector<StreamPosition> waits;
  sft::emulation::Clock clock;
  std::unique_ptr<StreamCapture> capture;
};

struct CUevent_st {
  int device;
  unsigned flags;
  bool is_destroyed = false;
  bool is_recorded = false;
  StreamPosition position;
  double time_ms = 0;  ///< when the recorded task ran; for events with timing
};

namespace sft::emulation {

/// The device of this thread.
[[nodiscard]] int current_device();
/// cudaSetDevice.
void set_current_device(int device);
/// Ends the program where this thread has chosen no device while another one has: CUDA would make a context on device 0
/// for it, with hundreds of MiB there, and take what it makes for that device's.
void require_chosen_device(const char* call);

/// The stream of a handle, null and the two special handles being the device's default stream. `call` is named when the
/// handle is unknown or destroyed, which ends the program.
[[nodiscard]] CUstream_st& stream_of(cudaStream_t handle, const char* call);
[[nodiscard]] CUevent_st& event_of(cudaEvent_t handle, const char* call);
[[nodiscard]] CUstream_st* make_stream(unsigned flags, int priority);
[[nodiscard]] CUevent_st* make_event(unsigned flags);

/// Queues a task, or, where the stream is captured, makes a node of a graph of it.
void push(CUstream_st& stream, std::string name, std::function<bool()> try_run);
/// Ends the program where the stream is captured, or where this thread captures any: what the real runtime refuses, and
/// what would be lost in the capture.
void require_not_captured(const CUstream_st& stream, const char* call);
void require_no_capture(const char* call);
/// The tasks queued so far, and the waits behind the last of them.
[[nodiscard]] StreamPosition position_of(CUstream_st& stream);
void wait(CUstream_st& stream, const StreamPosition& position);
[[nodiscard]] bool is_finished(const StreamPosition& position);
/// Runs tasks until the position is reached, which the host then knows, or a kernel broke off.
void finish(const StreamPosition& position);
/// finish() for every stream of the device.
void finish_device(int device);
/// Runs some tasks, if this thread made the first stream; true when the position is reached, which the host then knows.
[[nodiscard]] bool query(const StreamPosition& position);

}  // namespace sft::emulation
