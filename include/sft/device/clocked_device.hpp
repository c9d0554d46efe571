// SPDX-License-Identifier: Apache-2.0
#pragma once
// A device that touches no memory and whose streams are clocks: the work queued on a stream moves its clock on, and one
// that waits for an event is set to the time when that is reached. What runs over it, in the order in which it is
// queued, ends when it would on a machine of these rates: which work overlaps need not be said by anybody.

#include <algorithm>
#include <map>
#include <memory>
#include <string>

#include "sft/device/device.hpp"
#include "sft/device/rates.hpp"

namespace sft::device {

/// Seconds from the making of the device. Streams of a device whose work does not overlap share one clock.
class ClockedStream final : public Stream {
 public:
  ClockedStream(std::shared_ptr<double> now_s, Priority priority) : now_s_(std::move(now_s)), priority_(priority) {}

  void synchronize() override {}
  /// Throws std::bad_cast for an event of another device.
  void wait(Event& event) override;
  void poll() override {}

  /// Queues work that takes so long.
  void advance(double seconds) {
    *now_s_ += seconds;
    busy_s_ += seconds;
  }
  /// What is queued so far is over `seconds` from now at the earliest, while this stream can go on: its events are
  /// reached then.
  void lag(double seconds) { over_s_ = std::max(over_s_, *now_s_ + seconds); }
  /// When all that is queued is done, but for lags.
  [[nodiscard]] double now_s() const { return *now_s_; }
  /// When an event behind all that is queued is reached.
  [[nodiscard]] double over_s() const { return std::max(over_s_, *now_s_); }
  /// Of this stream's own work.
  [[nodiscard]] double busy_s() const { return busy_s_; }
  /// How long this stream had nothing to do but wait, by the name of the stream that it waited for.
  [[nodiscard]] const std::map<std::string, double>& waited_s() const { return waited_s_; }
  [[nodiscard]] Priority priority() const { return priority_; }

 private:
  std::shared_ptr<double> now_s_;
  const Priority priority_;
  double busy_s_ = 0, over_s_ = 0;
  std::map<std::string, double> waited_s_;
};

/// `stream` of a clocked device; throws std::bad_cast for another.
[[nodiscard]] ClockedStream& clocked(Stream& stream);

class ClockedDevice final : public Device {
 public:
  explicit ClockedDevice(Rates rates) : rates_(std::move(rates)) {}

  [[nodiscard]] const Rates& rates() const { return rates_; }

  [[nodiscard]] Kind kind() const override { return Kind::cpu; }
  [[nodiscard]] std::string description() const override { return "clocks"; }
  /// Throws std::logic_error: there is no memory.
  [[nodiscard]] Block allocate(std::size_t bytes, Space space) override;
  [[nodiscard]] std::unique_ptr<Stream> make_stream(Priority priority) override;
  [[nodiscard]] std::unique_ptr<Event> make_event() override;

  /// Takes the time of reading and writing; on streams for communication, whose copies go to the memory of the node and
  /// back, that of the link to it.
  void copy(void* destination, const void* source, std::size_t bytes, Stream& stream) override;
  void fill_zero(void* destination, std::size_t bytes, Stream& stream) override;

 private:
  const Rates rates_;
  std::shared_ptr<double> shared_now_s_ = std::make_shared<double>(0.0);
};

}  // namespace sft::device
