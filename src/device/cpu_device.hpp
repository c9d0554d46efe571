#pragma once
// Host memory and host streams.

#include "sft/device/device.hpp"

namespace sft::device {

class CpuDevice final : public Device {
 public:
  [[nodiscard]] Kind kind() const override { return Kind::cpu; }
  [[nodiscard]] std::string description() const override;

  /// Pages that were never written to take no memory.
  [[nodiscard]] Block allocate(std::size_t bytes) override;
  [[nodiscard]] Block allocate_pinned(std::size_t bytes) override { return allocate(bytes); }

  [[nodiscard]] std::unique_ptr<Stream> make_stream() override;
  [[nodiscard]] std::unique_ptr<Event> make_event() override;

  void copy(void* destination, const void* source, std::size_t bytes, Stream& stream) override;
  void fill_zero(void* destination, std::size_t bytes, Stream& stream) override;
};

}  // namespace sft::device
