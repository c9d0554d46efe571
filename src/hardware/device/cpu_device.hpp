// SPDX-License-Identifier: Apache-2.0
#pragma once
// Host memory and host streams.

#include <memory>

#include "cpu_stream.hpp"
#include "sft/device/device.hpp"
#include "sft/device/timeline.hpp"

namespace sft::device {

/// Ranges on the streams of the CPU, where MPI may still be at work when a call returns: each end of a range is a piece
/// of work of its own, which takes the time when its turn comes. It ends no earlier than somebody looks (Stream::poll).
class CpuTimeline final : public Timeline {
 private:
  class Mark;
  void stamp(Stream& stream, Id id, Edge edge) override;
};

/// Ordinary memory of the node. Pages that were never written to take none. Throws as Device::allocate.
[[nodiscard]] Device::Block allocate_host(std::size_t bytes);

class CpuDevice : public Device {
 public:
  /// ranks_share_cores: waiting ranks leave their core to others.
  explicit CpuDevice(bool ranks_share_cores) : Device(std::make_unique<CpuTimeline>()), streams_(ranks_share_cores) {}

  [[nodiscard]] Kind kind() const override { return Kind::cpu; }
  [[nodiscard]] std::string description() const override;

  /// All spaces are the node's memory. Pages that were never written to take none.
  [[nodiscard]] Block allocate(std::size_t bytes, Space space) override;

  [[nodiscard]] std::unique_ptr<Stream> make_stream(Priority priority) override;
  [[nodiscard]] std::unique_ptr<Event> make_event() override;

  void progress() override { streams_.poll_all(); }
  void copy(void* destination, const void* source, std::size_t bytes, Stream& stream) override;
  void fill_zero(void* destination, std::size_t bytes, Stream& stream) override;

 private:
  CpuStreams streams_;
};

/// Touches no memory: for planning, over the addresses of sizing arenas.
class NullDevice final : public CpuDevice {
 public:
  NullDevice() : CpuDevice(/*ranks_share_cores=*/false) {}

  void copy(void* /*destination*/, const void* /*source*/, std::size_t /*bytes*/, Stream& /*stream*/) override {}
  void fill_zero(void* /*destination*/, std::size_t /*bytes*/, Stream& /*stream*/) override {}
};

}  // namespace sft::device
