// SPDX-License-Identifier: Apache-2.0
#pragma once
// Memory, streams and events of one device, the same for host processors and GPUs.
//
// Everything is stream-ordered: a call that takes a Stream returns when the work is queued, and the work runs after all
// earlier work of that stream. The host may read results only after Stream::synchronize or Event::synchronize. On the
// CPU compute runs at once, while communication (see Pending) may still be under way when the call returns.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "sft/device/kind.hpp"
#include "sft/device/timeline.hpp"
#include "sft/device/wait_checks.hpp"

namespace sft::device {

/// What a host that waits for queued work waits for, in words: "all_gather of block 3 over fsdp (call 12)".
struct WaitText {
  std::string_view what = "queued work", of, over;
  std::uint64_t number = 0;  ///< 0: none
};

/// Work of a CPU stream that another agent (an MPI library) is doing. Owned by the stream, which tests only the first
/// of its queue: work starts at its first test(), when all queued before it is finished.
class Pending {
 public:
  virtual ~Pending() = default;
  /// Starts the work, or lets the agent make progress; true once it is finished. Never blocks.
  virtual bool test() = 0;
  [[nodiscard]] virtual WaitText text() const { return {}; }
};

/// Which work a GPU starts first when several streams have some ready: communication, on which other ranks wait; last
/// what only has to be done some time later. No meaning on the CPU.
enum class Priority { background, compute, communication };

class Event;
class LaunchTape;

class Stream {
 public:
  Stream();
  virtual ~Stream() = default;
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;
  /// Blocks the host until all queued work is finished.
  virtual void synchronize() = 0;
  /// synchronize() for destructors: where the work has failed it logs a warning of this rank instead of throwing.
  void drain() noexcept;
  /// Later work of this stream runs only after what `event` recorded is finished.
  virtual void wait(Event& event) = 0;
  /// Gives asynchronous work of this stream a chance to progress; never blocks. Cheap.
  virtual void poll() = 0;
  /// CPU only: queues work. Throws std::logic_error on other devices.
  virtual void push(std::unique_ptr<Pending> work);
  /// Notes on a GPU that what is queued so far may take long: its end is progress of this process (note_progress) that
  /// a host sees which waits for the device. Nothing on the CPU, whose ops note it themselves. Cheap.
  virtual void mark() {}
  /// The native handle (cudaStream_t), null on the CPU. For one call that queues work: launches that were put off
  /// before go first.
  [[nodiscard]] virtual void* native() const { return nullptr; }

  /// From now on the stream has a tape(), where its device can record launches; false: it cannot.
  virtual bool start_tape() { return false; }
  /// Where launches on this stream may be put off and repeated (launch_tape.hpp); null: none are.
  [[nodiscard]] virtual LaunchTape* tape() const { return nullptr; }

  /// What the stream carries, for timelines and profilers.
  [[nodiscard]] const std::string& name() const { return name_; }
  virtual void set_name(const std::string& name) { name_ = name; }
  /// No other stream of this process has or had it.
  [[nodiscard]] std::uint64_t number() const { return number_; }

 private:
  std::string name_ = "stream";
  std::uint64_t number_;
};

class Event {
 public:
  virtual ~Event() = default;
  /// Remembers all work queued on `stream` so far. May be recorded again.
  virtual void record(Stream& stream) = 0;
  /// Blocks the host until the recorded work is finished; returns at once if nothing was recorded.
  virtual void synchronize() = 0;
};

/// The memory of a GPU, this rank's share of it: all of it, divided by the ranks that share the GPU.
struct OwnMemory {
  std::size_t total_bytes = 0;
  std::size_t used_bytes = 0;  ///< now, by this process and by others
};

/// One processor with its memory. Not copyable; outlives everything made from it.
class Device {
 public:
  /// `timeline`: for the kind of its streams.
  explicit Device(std::unique_ptr<Timeline> timeline = std::make_unique<Timeline>()) : timeline_(std::move(timeline)) {}
  virtual ~Device() = default;
  [[nodiscard]] virtual Kind kind() const = 0;
  /// For the start table: "CPU, AVX-512 + AMX, 2 threads" or the GPU's name.
  [[nodiscard]] virtual std::string description() const = 0;

  /// Owning blocks of bytes of a memory space, 256-byte aligned, contents undefined. Throws an Error that says how much
  /// was asked for when there is not as much.
  using Block = std::unique_ptr<void, std::function<void(void*)>>;
  [[nodiscard]] virtual Block allocate(std::size_t bytes, Space space = Space::device) = 0;

  /// None on the CPU, whose memory is the node's (machine/node.hpp).
  [[nodiscard]] virtual std::optional<OwnMemory> own_memory() const { return std::nullopt; }
  /// The most memory that this rank has used so far: of the GPU, as seen at each allocation and each call of this, or
  /// the resident set of the process on the CPU.
  [[nodiscard]] virtual std::size_t peak_bytes();

  [[nodiscard]] virtual std::unique_ptr<Stream> make_stream(Priority priority = Priority::compute) = 0;
  [[nodiscard]] virtual std::unique_ptr<Event> make_event() = 0;

  /// Copies between host and device or within the device; regions do not overlap.
  virtual void copy(void* destination, const void* source, std::size_t bytes, Stream& stream) = 0;
  virtual void fill_zero(void* destination, std::size_t bytes, Stream& stream) = 0;

  /// Lets asynchronous work of all streams progress; never blocks. For code that keeps the host busy: nothing on a GPU,
  /// which progresses by itself. Errors of that work may surface here.
  virtual void progress() {}

  /// Asked while the host waits for a stream or an event of a GPU, on which others queue work that may never end. Not
  /// asked on the CPU, where the work that is waited for throws itself.
  [[nodiscard]] WaitChecks& wait_checks() { return wait_checks_; }

  /// The timeline of this rank's host thread and of the device's streams.
  [[nodiscard]] Timeline& timeline() { return *timeline_; }

 private:
  std::unique_ptr<Timeline> timeline_;
  WaitChecks wait_checks_;
};

}  // namespace sft::device
