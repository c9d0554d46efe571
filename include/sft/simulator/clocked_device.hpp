// SPDX-License-Identifier: Apache-2.0
#pragma once
// A device that touches no memory and whose streams are clocks: the work queued on a stream moves its clock on, and one
// that waits for an event is set to the time when that is reached. What runs over it, in the order in which it is
// queued, ends when it would on a machine of these rates: which work overlaps need not be said by anybody.

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sft/device/device.hpp"
#include "sft/device/launch_tape.hpp"
#include "sft/simulator/op_kind.hpp"
#include "sft/simulator/rates.hpp"

namespace sft::simulator {

/// How a device's memory is shared between its background stream, whose work is taken to need all of it all the time,
/// and the ops of compute streams that run meanwhile: it serves one of the two at a time, so an op is over later by the
/// time of its own bytes, and what the background stream has left by the same. That is on the safe side: an op that
/// computes would lose nothing where its reads came first. Work of communication is not counted.
///
/// Times of the background stream are those that it would have alone.
class SharedMemory {
 public:
  /// The background stream works from `begin_s` on.
  void work(double begin_s, double seconds);
  /// By how much longer an op takes from now_s on that would take so long, of it memory_s for its bytes.
  [[nodiscard]] double share(double now_s, double seconds, double memory_s);

  /// When the background stream reaches its time alone_s.
  [[nodiscard]] double real_s(double alone_s) const;
  /// Its time alone at now_s, behind all ops that it shared the memory with.
  [[nodiscard]] double alone_s(double now_s) const { return now_s - delay_s(); }

 private:
  struct Interval {
    double begin_s, end_s;
  };
  /// Work that begins at at_s or later, or goes on there, is over later by all delays up to this one.
  struct Delay {
    double at_s, sum_s;
  };
  [[nodiscard]] double delay_s() const { return delays_.empty() ? 0.0 : delays_.back().sum_s; }

  std::vector<Interval> work_;  ///< rising, apart from each other
  std::size_t num_over_ = 0;    ///< of work_: behind all ops that come
  std::vector<Delay> delays_;   ///< rising
};

/// The host that queues the work of a device, and is never waited for but by the work itself.
class ClockedHost {
 public:
  explicit ClockedHost(const Rates& rates) : launch_s_(rates.host_launch_s), repeat_s_(rates.host_repeat_s) {}

  /// It queues one op; within a chain it has done so.
  void launch() {
    if (!is_in_chain_) now_s_ += launch_s_;
  }
  /// It queues so many ops, which `queue` queues, by one launch.
  void launch_chain(std::size_t num_ops, const device::Launch& queue);
  [[nodiscard]] double now_s() const { return now_s_; }

 private:
  const double launch_s_, repeat_s_;
  double now_s_ = 0;
  bool is_in_chain_ = false;
};

/// Seconds from the making of the device. Streams of a device whose work does not overlap share one clock.
class ClockedStream final : public device::Stream {
 public:
  /// `memory`: null where work does not overlap.
  ClockedStream(std::shared_ptr<double> now_s, device::Priority priority, std::shared_ptr<ClockedHost> host,
                std::shared_ptr<SharedMemory> memory = nullptr)
      : now_s_(std::move(now_s)), priority_(priority), host_(std::move(host)), memory_(std::move(memory)) {}

  void synchronize() override { settle(); }
  /// Throws std::bad_cast for an event of another device.
  void wait(device::Event& event) override;
  void poll() override {}
  bool start_tape() override;
  [[nodiscard]] device::LaunchTape* tape() const override { return tape_.get(); }
  /// Before anything else is queued.
  void settle() const {
    if (tape_ != nullptr) tape_->settle();
  }

  /// Queues an op that takes so long where it has the device to itself, `memory_s` of it for the bytes that it moves.
  /// `kind`: where op_times() are to tell.
  void advance(double seconds, double memory_s = 0, std::optional<OpKind> kind = {});
  /// What is queued so far is over `seconds` from now at the earliest, while this stream can go on: its events are
  /// reached then.
  void lag(double seconds) { over_s_ = std::max(over_s_, *now_s_ + seconds); }
  /// When all that is queued is done, but for lags; of a background stream as far as others were queued beside it.
  [[nodiscard]] double now_s() const { return is_background() ? memory_->real_s(*now_s_) : *now_s_; }
  /// When an event behind all that is queued is reached.
  [[nodiscard]] double over_s() const { return std::max(over_s_, now_s()); }
  /// Of this stream's own work.
  [[nodiscard]] double busy_s() const { return busy_s_; }
  /// Of busy_s() what ops of a kind took.
  [[nodiscard]] const OpTimes& op_times() const { return op_times_; }
  /// How long this stream had nothing to do but wait, by the name of the stream that it waited for, or "host".
  [[nodiscard]] const std::map<std::string, double>& waited_s() const { return waited_s_; }
  [[nodiscard]] device::Priority priority() const { return priority_; }

  /// Of a background stream: its clock as if it were alone, and what it shares with the others. Else null.
  [[nodiscard]] double alone_s() const { return *now_s_; }
  [[nodiscard]] const SharedMemory* background() const { return is_background() ? memory_.get() : nullptr; }

 private:
  [[nodiscard]] bool is_background() const { return memory_ != nullptr && priority_ == device::Priority::background; }
  /// Has nothing to do before time_s, for which it waits for `what`.
  void wait_until(double time_s, const std::string& what);

  std::shared_ptr<double> now_s_;  ///< of a background stream that of SharedMemory
  const device::Priority priority_;
  const std::shared_ptr<ClockedHost> host_;
  const std::shared_ptr<SharedMemory> memory_;
  double busy_s_ = 0, over_s_ = 0;
  OpTimes op_times_ = {};
  std::map<std::string, double> waited_s_;
  std::unique_ptr<device::LaunchTape> tape_;
};

/// `stream` of a clocked device; throws std::bad_cast for another.
[[nodiscard]] ClockedStream& clocked(device::Stream& stream);

class ClockedDevice final : public device::Device {
 public:
  explicit ClockedDevice(Rates rates) : rates_(std::move(rates)), host_(std::make_shared<ClockedHost>(rates_)) {}

  [[nodiscard]] const Rates& rates() const { return rates_; }

  [[nodiscard]] device::Kind kind() const override { return device::Kind::cpu; }
  [[nodiscard]] std::string description() const override { return "clocks"; }
  /// Throws std::logic_error: there is no memory.
  [[nodiscard]] Block allocate(std::size_t bytes, device::Space space) override;
  [[nodiscard]] std::unique_ptr<device::Stream> make_stream(device::Priority priority) override;
  [[nodiscard]] std::unique_ptr<device::Event> make_event() override;

  /// Takes the time of reading and writing; on streams for communication, whose copies go to the memory of the node and
  /// back, that of the link to it.
  void copy(void* destination, const void* source, std::size_t bytes, device::Stream& stream) override;
  void fill_zero(void* destination, std::size_t bytes, device::Stream& stream) override;

 private:
  const Rates rates_;
  std::shared_ptr<double> shared_now_s_ = std::make_shared<double>(0.0);
  std::shared_ptr<ClockedHost> host_;
  std::shared_ptr<SharedMemory> memory_ = std::make_shared<SharedMemory>();
};

}  // namespace sft::simulator
