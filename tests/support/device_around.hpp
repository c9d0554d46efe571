// SPDX-License-Identifier: Apache-2.0
#pragma once
// Devices of tests that are a real one but for what a test changes.

#include <cstdlib>
#include <memory>
#include <string>
#include <utility>

#include "sft/device/device.hpp"

namespace sft::test {

/// Hands every call on to another device of the host.
class DeviceAround : public device::Device {
 public:
  explicit DeviceAround(std::unique_ptr<device::Device> inner) : inner_(std::move(inner)) {}

  [[nodiscard]] device::Kind kind() const override { return inner_->kind(); }
  [[nodiscard]] std::string description() const override { return inner_->description(); }
  [[nodiscard]] Block allocate(std::size_t bytes, device::Space space) override {
    return inner_->allocate(bytes, space);
  }
  [[nodiscard]] std::unique_ptr<device::Stream> make_stream(device::Priority priority) override {
    return inner_->make_stream(priority);
  }
  [[nodiscard]] std::unique_ptr<device::Event> make_event() override { return inner_->make_event(); }
  void progress() override { inner_->progress(); }
  void copy(void* destination, const void* source, std::size_t bytes, device::Stream& stream) override {
    inner_->copy(destination, source, bytes, stream);
  }
  void fill_zero(void* destination, std::size_t bytes, device::Stream& stream) override {
    inner_->fill_zero(destination, bytes, stream);
  }

 private:
  std::unique_ptr<device::Device> inner_;
};

/// As if the node had no memory to share, on this rank: collectives take theirs from the device then, and the ranks
/// exchange messages.
class NoWindows {
 public:
  NoWindows() { setenv(variable, "/proc", 1); }
  ~NoWindows() { unsetenv(variable); }
  NoWindows(const NoWindows&) = delete;
  NoWindows& operator=(const NoWindows&) = delete;

 private:
  static constexpr const char* variable = "OMPI_MCA_osc_sm_backing_directory";
};

}  // namespace sft::test
