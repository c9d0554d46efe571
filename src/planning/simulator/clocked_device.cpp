// SPDX-License-Identifier: Apache-2.0
#include "sft/simulator/clocked_device.hpp"

#include <algorithm>

#include "sft/core/ensure.hpp"
#include "sft/device/fill_key.hpp"
#include "sft/device/known_streams.hpp"

namespace sft::simulator {

namespace {

class ClockedEvent final : public device::Event {
 public:
  void record(device::Stream& stream) override {
    of_ = &clocked(stream);
    of_->settle();
    known_.record(stream);
    time_s_ = of_->background() != nullptr ? of_->alone_s() : of_->over_s();
    stream_ = stream.name();
  }
  void synchronize() override {}

  /// Null: never recorded.
  [[nodiscard]] const ClockedStream* of() const { return of_; }
  [[nodiscard]] double time_s() const {
    const SharedMemory* memory = of_ != nullptr ? of_->background() : nullptr;
    return memory != nullptr ? memory->real_s(time_s_) : time_s_;
  }
  [[nodiscard]] const std::string& stream() const { return stream_; }
  [[nodiscard]] device::KnownStreams& known() { return known_; }

 private:
  const ClockedStream* of_ = nullptr;
  device::KnownStreams known_;
  double time_s_ = 0;  ///< of a background stream that of its own clock
  std::string stream_;
};

/// A chain is queued by one launch of the host.
class ClockedRecorder final : public device::Recorder {
 public:
  explicit ClockedRecorder(ClockedHost& host) : host_(host) {}
  [[nodiscard]] std::unique_ptr<device::Recording> record(std::size_t num_launches,
                                                          const device::Launch& launches) override {
    struct Chain final : device::Recording {
      Chain(ClockedHost& of, std::size_t num, device::Launch all)
          : host(of), num_launches(num), launches(std::move(all)) {}
      void launch() override { host.launch_chain(num_launches, launches); }
      ClockedHost& host;
      std::size_t num_launches;
      device::Launch launches;
    };
    return std::make_unique<Chain>(host_, num_launches, launches);
  }

 private:
  ClockedHost& host_;
};

}  // namespace

void ClockedHost::launch_chain(std::size_t num_ops, const device::Launch& queue) {
  now_s_ += launch_s_ + static_cast<double>(num_ops) * repeat_s_;
  is_in_chain_ = true;
  queue();
  is_in_chain_ = false;
}

ClockedStream& clocked(device::Stream& stream) { return dynamic_cast<ClockedStream&>(stream); }

bool ClockedStream::start_tape() {
  // A run's chains have all come before; those of a plan stand for them from the first on.
  constexpr device::LaunchTape::Limits limits{.recorded_at = 1};
  if (tape_ == nullptr) tape_ = std::make_unique<device::LaunchTape>(std::make_unique<ClockedRecorder>(*host_), limits);
  return true;
}

void ClockedStream::wait(device::Event& event) {
  auto& reached = dynamic_cast<ClockedEvent&>(event);
  if (!reached.known().tell(*this)) return;
  settle();
  wait_until(reached.time_s(), reached.stream());
}

void ClockedStream::wait_until(double time_s, const std::string& what) {
  const double waited_s = time_s - now_s();
  if (waited_s <= 0) return;
  waited_s_[what] += waited_s;
  *now_s_ = is_background() ? std::max(*now_s_, memory_->alone_s(time_s)) : time_s;
}

void ClockedStream::advance(double seconds, double memory_s, std::optional<OpKind> kind) {
  settle();
  host_->launch();
  wait_until(host_->now_s(), "host");
  if (is_background()) {
    memory_->work(*now_s_, seconds);
  } else if (memory_ != nullptr && priority_ == device::Priority::compute) {
    seconds += memory_->share(*now_s_, seconds, memory_s);
  }
  *now_s_ += seconds;
  busy_s_ += seconds;
  if (kind) op_times_[kind->index()] += seconds;
}

void SharedMemory::work(double begin_s, double seconds) {
  if (seconds <= 0) return;
  if (!work_.empty() && work_.back().end_s >= begin_s) {
    work_.back().end_s = begin_s + seconds;
  } else {
    work_.push_back({begin_s, begin_s + seconds});
  }
}

double SharedMemory::share(double now_s, double seconds, double memory_s) {
  if (num_over_ == work_.size() || seconds <= 0 || memory_s <= 0) return 0.0;
  const double begin_s = alone_s(now_s), end_s = begin_s + seconds;
  while (num_over_ < work_.size() && work_[num_over_].end_s <= begin_s) ++num_over_;
  double shared_s = 0.0;
  for (std::size_t i = num_over_; i < work_.size() && work_[i].begin_s < end_s; ++i) {
    shared_s += std::min(end_s, work_[i].end_s) - std::max(begin_s, work_[i].begin_s);
  }
  if (shared_s <= 0) return 0.0;
  const double added_s = std::min(memory_s, seconds) * shared_s / seconds;
  delays_.push_back({begin_s, delay_s() + added_s});
  return added_s;
}

double SharedMemory::real_s(double alone_s) const {
  const auto behind = std::ranges::lower_bound(delays_, alone_s, {}, &Delay::at_s);
  return alone_s + (behind == delays_.begin() ? 0.0 : (behind - 1)->sum_s);
}

device::Device::Block ClockedDevice::allocate(std::size_t /*bytes*/, device::Space /*space*/) {
  SFT_ENSURE(false, "a device of clocks has no memory");
  return {};
}

std::unique_ptr<device::Stream> ClockedDevice::make_stream(device::Priority priority) {
  if (!rates_.overlaps) return std::make_unique<ClockedStream>(shared_now_s_, priority, host_);
  return std::make_unique<ClockedStream>(std::make_shared<double>(0.0), priority, host_, memory_);
}

std::unique_ptr<device::Event> ClockedDevice::make_event() { return std::make_unique<ClockedEvent>(); }

void ClockedDevice::copy(void* /*destination*/, const void* /*source*/, std::size_t bytes, device::Stream& stream) {
  ClockedStream& of = clocked(stream);
  const auto num_bytes = static_cast<double>(bytes);
  if (of.priority() == device::Priority::communication) {
    return of.advance(rates_.launch_s + num_bytes / rates_.host_bytes_per_s);
  }
  const double seconds = rates_.pass_s(ops::Pass::copy, 2 * num_bytes);
  of.advance(seconds, seconds, ops::Pass::copy);
}

void ClockedDevice::fill_zero(void* destination, std::size_t bytes, device::Stream& stream) {
  const double memory_s = static_cast<double>(bytes) / rates_.memory_bytes_per_s;
  const auto fill = [this, memory_s, &of = clocked(stream)] {
    of.advance(rates_.launch_s + memory_s, memory_s, ops::Pass::copy);
  };
  if (stream.tape() == nullptr) return fill();
  stream.tape()->defer(device::key_of_fill_zero(destination, bytes), fill);
}

}  // namespace sft::simulator
