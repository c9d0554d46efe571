// SPDX-License-Identifier: Apache-2.0
#pragma once
// Streams and events of the CPU: a queue of work that the MPI library is doing.

#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

#include "sft/device/device.hpp"

namespace sft::device {

class CpuStream;

/// All streams of one device. Who waits for one keeps the others going: another rank may need their work before it can
/// send what is waited for.
class CpuStreams {
 public:
  explicit CpuStreams(bool ranks_share_cores) : ranks_share_cores_(ranks_share_cores) {}
  void add(CpuStream& stream) { streams_.push_back(&stream); }
  void remove(CpuStream& stream) { std::erase(streams_, &stream); }
  void poll_all();
  void poll_others(const CpuStream& waiting);
  /// Between two fruitless tests, `num_tests` so far: yields, and where ranks share cores soon sleeps.
  void pause(int num_tests) const;

 private:
  bool ranks_share_cores_;
  std::vector<CpuStream*> streams_;
};

/// Works through its queue in order: only the head is tested, so a piece of work may rely on everything queued before
/// it.
class CpuStream final : public Stream {
 public:
  explicit CpuStream(CpuStreams& streams) : streams_(streams) { streams_.add(*this); }
  ~CpuStream() override { streams_.remove(*this); }
  CpuStream(const CpuStream&) = delete;
  CpuStream& operator=(const CpuStream&) = delete;

  void synchronize() override { finish(num_pushed_); }
  void wait(Event& event) override;
  void poll() override;
  void push(std::unique_ptr<Pending> work) override;

  /// How many pieces of work were queued so far.
  [[nodiscard]] std::uint64_t num_pushed() const { return num_pushed_; }
  /// Blocks until the first `count` pieces of work ever queued are finished.
  void finish(std::uint64_t count);

 private:
  CpuStreams& streams_;
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
