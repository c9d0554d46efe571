// SPDX-License-Identifier: Apache-2.0
#include "sft/device/clocked_device.hpp"

#include "sft/core/ensure.hpp"

namespace sft::device {

namespace {

class ClockedEvent final : public Event {
 public:
  void record(Stream& stream) override {
    of_ = &clocked(stream);
    time_s_ = of_->over_s();
    stream_ = stream.name();
  }
  void synchronize() override {}

  /// Null: never recorded.
  [[nodiscard]] const ClockedStream* of() const { return of_; }
  [[nodiscard]] double time_s() const { return time_s_; }
  [[nodiscard]] const std::string& stream() const { return stream_; }

 private:
  const ClockedStream* of_ = nullptr;
  double time_s_ = 0;
  std::string stream_;
};

}  // namespace

ClockedStream& clocked(Stream& stream) { return dynamic_cast<ClockedStream&>(stream); }

void ClockedStream::wait(Event& event) {
  const auto& reached = dynamic_cast<ClockedEvent&>(event);
  if (reached.of() == this || reached.time_s() <= *now_s_) return;
  waited_s_[reached.stream()] += reached.time_s() - *now_s_;
  *now_s_ = reached.time_s();
}

Device::Block ClockedDevice::allocate(std::size_t /*bytes*/, Space /*space*/) {
  SFT_ENSURE(false, "a device of clocks has no memory");
  return {};
}

std::unique_ptr<Stream> ClockedDevice::make_stream(Priority priority) {
  return std::make_unique<ClockedStream>(rates_.overlaps ? std::make_shared<double>(0.0) : shared_now_s_, priority);
}

std::unique_ptr<Event> ClockedDevice::make_event() { return std::make_unique<ClockedEvent>(); }

void ClockedDevice::copy(void* /*destination*/, const void* /*source*/, std::size_t bytes, Stream& stream) {
  ClockedStream& of = clocked(stream);
  const auto num_bytes = static_cast<double>(bytes);
  const bool is_to_host = of.priority() == Priority::communication;
  of.advance(is_to_host ? rates_.launch_s + num_bytes / rates_.host_bytes_per_s
                        : rates_.pass_s(Pass::copy, 2 * num_bytes));
}

void ClockedDevice::fill_zero(void* /*destination*/, std::size_t bytes, Stream& stream) {
  clocked(stream).advance(rates_.launch_s + static_cast<double>(bytes) / rates_.memory_bytes_per_s);
}

}  // namespace sft::device
