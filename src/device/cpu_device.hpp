// SPDX-License-Identifier: Apache-2.0
#pragma once
// Host memory and host streams.

#include <memory>

#include "cpu_stream.hpp"
#include "cpu_timeline.hpp"
#include "sft/device/device.hpp"

namespace sft::device {

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
