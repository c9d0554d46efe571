// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

#include "sft/core/error.hpp"
#include "support/device_around.hpp"

namespace sft::test {

/// Has nothing left for one request, by its number: a block of memory, a stream or an event.
class FailingDevice final : public DeviceAround {
 public:
  using DeviceAround::DeviceAround;

  /// The request that fails, counted from now on; 1 is the next. 0: none.
  void fail_at(std::int64_t request) { left_ = request; }
  static constexpr const char* message = "cannot allocate anything (as the test wants it): take more";

  [[nodiscard]] Block allocate(std::size_t bytes, device::Space space) override {
    count();
    return DeviceAround::allocate(bytes, space);
  }
  [[nodiscard]] std::unique_ptr<device::Stream> make_stream(device::Priority priority) override {
    count();
    return DeviceAround::make_stream(priority);
  }
  [[nodiscard]] std::unique_ptr<device::Event> make_event() override {
    count();
    return DeviceAround::make_event();
  }

 private:
  void count() {
    if (left_ > 0 && --left_ == 0) throw Error(ExitStatus::failure, message);
  }

  std::int64_t left_ = 0;
};

}  // namespace sft::test
