#pragma once
// Streams and events of the CPU: a queue of work that the MPI library is doing.

#include <cstdint>
#include <deque>
#include <memory>

#include "sft/device/device.hpp"

namespace sft::device {

/// Works through its queue in order: only the head is tested or waited for, so a piece of work may rely on everything
/// queued before it.
class CpuStream final : public Stream {
 public:
  void synchronize() override { finish(num_pushed_); }
  void wait(Event& event) override;
  void poll() override;
  void push(std::unique_ptr<Pending> work) override;

  /// How many pieces of work were queued so far.
  [[nodiscard]] std::uint64_t num_pushed() const { return num_pushed_; }
  /// Blocks until the first `count` pieces of work ever queued are finished.
  void finish(std::uint64_t count);

 private:
  std::deque<std::unique_ptr<Pending>> queue_;
  std::uint64_t num_pushed_ = 0;
  std::uint64_t num_finished_ = 0;
};

/// A position in the queue of a stream, which must outlive the event's use.
class CpuEvent final : public Event {
 public:
  void record(Stream& stream) override;
  void synchronize() override;

  [[nodiscard]] const CpuStream* stream() const { return stream_; }

 private:
  CpuStream* stream_ = nullptr;
  std::uint64_t position_ = 0;
};

}  // namespace sft::device
