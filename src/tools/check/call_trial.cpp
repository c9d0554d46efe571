// SPDX-License-Identifier: Apache-2.0
#include "call_trial.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <span>
#include <utility>

#include "sft/core/cast.hpp"
#include "sft/device/arena.hpp"
#include "sft/device/ledger.hpp"

namespace sft::check {

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::array<std::size_t, 5> sizes_of_calls{std::size_t{1} << 10, std::size_t{1} << 14, std::size_t{1} << 17,
                                                    std::size_t{1} << 20, std::size_t{1} << 22};

/// For what ranks wait for each other: about as many seconds of work between two calls, and the bytes of sums, and of
/// messages, which are no longer sent without asking.
constexpr std::array<double, 4> seconds_of_work{2e-4, 1e-3, 5e-3, 4e-2};
constexpr std::size_t bytes_of_sums = sizes_of_calls[0], bytes_of_messages = sizes_of_calls[2];

class CallTrial {
 public:
  CallTrial(const CheckedMachine& machine, comm::Group group, double window_s)
      : world_(machine.groups.world),
        device_(machine.device),
        group_(std::move(group)),
        window_s_(window_s),
        stream_(device_.make_stream(device::Priority::communication)),
        collectives_(comm::make_collectives(device_, {comm::TensorGroup(group_)}, {machine.way})),
        gathered_(take(comm::MemoryUse::gathered)),
        reduced_(take(comm::MemoryUse::reduced)),
        own_(device_.allocate(most_bytes)),
        other_(device_.allocate(most_bytes)) {
    const comm::StagingPlan plan{.max_reduce_scatter_bytes = most_bytes, .max_all_reduce_bytes = most_bytes};
    device::Arena sizing, pinned_sizing;
    (void)comm::take_staging(device_.kind(), machine.way, sizing, pinned_sizing, plan);
    const auto arena = [&](const device::Arena& sized, device::Space space) {
      return device::Arena(device_, ledger_, device::Label::communication, sized.used_bytes(), space);
    };
    staging_ = arena(sizing, device::Space::device);
    pinned_staging_ = arena(pinned_sizing, device::Space::pinned);
    collectives_->set_staging(comm::take_staging(device_.kind(), machine.way, staging_, pinned_staging_, plan));
    for (const device::Device::Block* block : {&reduced_, &own_, &other_}) {
      device_.fill_zero(block->get(), most_bytes, *stream_);
    }
    stream_->synchronize();
  }

  /// The points of a call.
  [[nodiscard]] std::vector<simulator::MeasuredCalls::Point> measure(
      const std::function<void(std::size_t)>& call) const {
    std::vector<simulator::MeasuredCalls::Point> points;
    for (const std::size_t bytes : sizes_of_calls) {
      const std::size_t whole = bytes / sizeof(float) / group_.size() * group_.size() * sizeof(float);
      if (whole == 0) continue;
      points.push_back({static_cast<double>(whole), seconds_of([&] { call(whole); })});
    }
    return points;
  }

  [[nodiscard]] std::vector<simulator::MeasuredWaits::Point> measure_waits(const std::function<void()>& call,
                                                                           const std::function<void()>& work) const {
    constexpr int few = 16;
    const double call_s = seconds_of(call);  // as measure() has it, and plans know it
    const double work_s = mean_s(few, work);
    std::vector<simulator::MeasuredWaits::Point> points;
    for (const double seconds : seconds_of_work) {
      const auto count = std::max<std::int64_t>(1, std::llround(seconds / work_s));
      const auto work_once = [&] {
        for (std::int64_t i = 0; i < count; ++i) work();
      };
      constexpr int fewest = 6;
      const int num_calls = std::max(fewest, static_cast<int>(window_s_ / seconds));
      // In turn, and the middle ones: how ranks meet the turns of others is better or worse by chance.
      std::array<double, 5> alone_s{}, met_s{};
      for (std::size_t round = 0; round < alone_s.size(); ++round) {
        alone_s[round] = mean_s(num_calls, work_once);
        met_s[round] = mean_s(num_calls, [&] {
          work_once();
          call();
          stream_->synchronize();
        });
      }
      std::ranges::sort(alone_s);
      std::ranges::sort(met_s);
      constexpr std::size_t middle = alone_s.size() / 2;
      const double computed_s = alone_s[middle];
      if (!points.empty() && computed_s <= points.back().computed_s) continue;
      points.push_back({computed_s, std::max(0.0, met_s[middle] - computed_s - call_s)});
    }
    return points;
  }

  void all_gather(std::size_t bytes) {
    collectives_->all_gather(group_, floats(gathered_, bytes), floats(own_, bytes / group_.size()), *stream_);
  }
  void reduce_scatter_add(std::size_t bytes) {
    collectives_->reduce_scatter_add(group_, floats(own_, bytes / group_.size()), floats(reduced_, bytes), *stream_);
  }
  void all_reduce(std::size_t bytes) {
    collectives_->all_reduce(group_, floats(reduced_, bytes), comm::ReduceOp::max, *stream_);
  }
  void exchange(std::size_t bytes) {
    const int rank = group_.rank(), size = group_.size();
    collectives_->exchange(group_, floats(own_, bytes), (rank + 1) % size, floats(other_, bytes),
                           (rank + size - 1) % size, *stream_);
  }
  /// As many bytes are sent as are received.
  void exchange_all(std::size_t bytes) {
    const int size = group_.size();
    const auto count = static_cast<std::int64_t>(bytes / 2 / sizeof(float)) / size;
    std::vector<comm::Message> sends, receives;
    for (int peer = 0; peer < size; ++peer) {
      if (peer == group_.rank()) continue;
      const auto part = [&](const device::Device::Block& block) {
        return Tensor(static_cast<float*>(block.get()) + peer * count, DType::float32, {count});
      };
      if (count == 0) continue;
      sends.push_back({part(own_), peer});
      receives.push_back({part(other_), peer});
    }
    collectives_->exchange_all(group_, sends, receives, *stream_);
  }

 private:
  static constexpr std::size_t most_bytes = sizes_of_calls.back();

  static Tensor floats(const device::Device::Block& block, std::size_t bytes) {
    return {block.get(), DType::float32, {checked_cast<std::int64_t>(bytes / sizeof(float))}};
  }
  [[nodiscard]] device::Device::Block take(comm::MemoryUse use) {
    device::Device::Block shared = collectives_->allocate_shared(group_, use, most_bytes);
    return shared != nullptr ? std::move(shared) : collectives_->allocate_own(group_, most_bytes);
  }

  /// Of one `work`, of so many that all ranks do at once: the mean over them.
  [[nodiscard]] double mean_s(int num_calls, const std::function<void()>& work) const {
    std::int64_t nothing = 0;
    world_.sum(std::span(&nothing, 1));
    const auto start = Clock::now();
    for (int i = 0; i < num_calls; ++i) work();
    std::array<double, 1> seconds{std::chrono::duration<double>(Clock::now() - start).count()};
    world_.sum(std::span<double>(seconds));
    return seconds[0] / world_.size() / num_calls;
  }

  /// All ranks of the world make as many calls, which fill the window.
  [[nodiscard]] double seconds_of(const std::function<void()>& call) const {
    const auto run = [&](int num_calls) {
      std::int64_t nothing = 0;
      world_.sum(std::span(&nothing, 1));
      const auto start = Clock::now();
      for (int i = 0; i < num_calls; ++i) call();
      stream_->synchronize();
      std::array<double, 1> seconds{std::chrono::duration<double>(Clock::now() - start).count() / num_calls};
      world_.max(std::span<double>(seconds));
      return seconds[0];
    };
    (void)run(1);
    constexpr int few = 3, most_calls = 1000;
    const double about_s = run(few);
    const int num_calls = std::clamp(static_cast<int>(window_s_ / about_s), few, most_calls);
    std::array<double, 3> rounds_s{};
    for (double& round_s : rounds_s) round_s = run(num_calls);
    std::ranges::sort(rounds_s);
    return rounds_s[1];
  }

  const comm::Group& world_;
  device::Device& device_;
  const comm::Group group_;
  const double window_s_;
  const std::unique_ptr<device::Stream> stream_;
  const std::unique_ptr<comm::Collectives> collectives_;
  device::Ledger ledger_;
  device::Arena staging_, pinned_staging_;
  device::Device::Block gathered_, reduced_, own_, other_;
};

/// Of the groups to which the ranks of `world` are dealt. Collective.
comm::Group own_group(const comm::Group& world, const simulator::Span& span, int ranks_per_node) {
  const int node = world.rank() / ranks_per_node, place = world.rank() % ranks_per_node;
  const int groups_per_node = ranks_per_node / span.ranks_per_node;
  const int color = node / span.num_nodes * groups_per_node + place / span.ranks_per_node;
  return world.split(color, world.rank(), "trial");
}

}  // namespace

std::vector<simulator::MeasuredWaits> measure_waits(const CheckedMachine& machine, const simulator::Span& span,
                                                    int ranks_per_node, double window_s,
                                                    const std::function<void()>& work) {
  CallTrial trial(machine, own_group(machine.groups.world, span, ranks_per_node), window_s);
  return {
      {simulator::waited_calls[0], span, trial.measure_waits([&] { trial.all_reduce(bytes_of_sums); }, work)},
      {simulator::waited_calls[1], span, trial.measure_waits([&] { trial.exchange_all(bytes_of_messages); }, work)}};
}

std::vector<simulator::MeasuredCalls> measure_calls(const CheckedMachine& machine, const simulator::Span& span,
                                                    int ranks_per_node, double window_s) {
  CallTrial trial(machine, own_group(machine.groups.world, span, ranks_per_node), window_s);
  std::vector<simulator::MeasuredCalls> all;
  const auto add = [&](const char* name, void (CallTrial::*call)(std::size_t)) {
    all.push_back({name, span, trial.measure([&](std::size_t bytes) { (trial.*call)(bytes); })});
  };
  add("all_gather", &CallTrial::all_gather);
  add("reduce_scatter_add", &CallTrial::reduce_scatter_add);
  add("all_reduce", &CallTrial::all_reduce);
  add("exchange", &CallTrial::exchange);
  add("exchange_all", &CallTrial::exchange_all);
  return all;
}

}  // namespace sft::check
