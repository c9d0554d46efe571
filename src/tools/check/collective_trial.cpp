// SPDX-License-Identifier: Apache-2.0
#include "collective_trial.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <chrono>
#include <cstring>
#include <functional>
#include <span>

#include "sft/core/ensure.hpp"

namespace sft::check {

namespace {

using comm::StagingPlan;

/// What a rank contributes as element i: a factor of its own by one of the element's, whole numbers so small that sums
/// over many thousand ranks are exact.
int factor_of(int rank) { return rank % 16 + 1; }
float value(int rank, std::int64_t i) { return static_cast<float>(factor_of(rank) * (i % 61 + 1)); }

std::vector<float> values(std::int64_t count, const std::function<float(std::int64_t)>& value_of) {
  std::vector<float> result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(value_of(i));
  return result;
}

/// The sum of all ranks' factors.
std::int64_t sum_of_factors(int num_ranks) {
  std::int64_t sum = 0;
  for (int rank = 0; rank < num_ranks; ++rank) sum += factor_of(rank);
  return sum;
}

/// "element 7 of all_reduce is 3, not 4"; empty where all are right.
std::string difference(const char* call, const std::vector<float>& result, const std::vector<float>& expected) {
  const auto [wrong, right] = std::ranges::mismatch(result, expected);
  if (wrong == result.end()) return "";
  return fmt::format("element {} of {} is {:f}, not {:f}", wrong - result.begin(), call, *wrong, *right);
}

void barrier(const comm::Group& group) {
  std::int64_t nothing = 0;
  group.sum(std::span(&nothing, 1));
}

}  // namespace

CollectiveTrial::CollectiveTrial(device::Device& device, comm::Collectives& collectives, comm::Transport::Way way,
                                 std::size_t max_bytes)
    : device_(device),
      collectives_(collectives),
      max_bytes_(max_bytes),
      large_(device.allocate(max_bytes)),
      small_(device.allocate(max_bytes)),
      pinned_(device.allocate(max_bytes, device::Space::pinned)),
      stream_(device.make_stream(device::Priority::communication)) {
  const StagingPlan plan{.max_reduce_scatter_bytes = max_bytes, .max_all_reduce_bytes = max_bytes};
  device::Arena sizing, pinned_sizing;
  (void)comm::take_staging(device.kind(), way, sizing, pinned_sizing, plan);
  const auto arena = [&](const device::Arena& sized, device::Space space) {
    return device::Arena(device, ledger_, device::Label::communication, sized.used_bytes(), space);
  };
  staging_ = arena(sizing, device::Space::device);
  pinned_staging_ = arena(pinned_sizing, device::Space::pinned);
  collectives.set_staging(comm::take_staging(device.kind(), way, staging_, pinned_staging_, plan));
  device.fill_zero(large_.get(), max_bytes, *stream_);
  device.fill_zero(small_.get(), max_bytes, *stream_);
}

bool CollectiveTrial::has(const comm::TensorGroup& group, Call call) {
  switch (call) {
    case Call::all_gather:
      return true;
    case Call::reduce_scatter_add:
    case Call::all_reduce:
      return group.has_sums;
    case Call::exchange:
      return group.has_exchanges;
  }
  return false;
}

Tensor CollectiveTrial::floats(const device::Device::Block& block, std::int64_t count) {
  return {block.get(), DType::float32, {count}};
}

void CollectiveTrial::upload(const Tensor& to, const std::vector<float>& values) {
  stream_->synchronize();  // the last copy from the pinned memory
  std::memcpy(pinned_.get(), values.data(), to.size_bytes());
  device_.copy(to.data, pinned_.get(), to.size_bytes(), *stream_);
}

std::vector<float> CollectiveTrial::download(const Tensor& from) {
  device_.copy(pinned_.get(), from.data, from.size_bytes(), *stream_);
  stream_->synchronize();
  const auto* begin = static_cast<const float*>(pinned_.get());
  return {begin, begin + from.num_elements()};
}

std::string CollectiveTrial::find_error(const comm::TensorGroup& group, std::size_t bytes) {
  SFT_ENSURE(bytes <= max_bytes_, "a trial has memory for its tensors");
  const auto most = static_cast<std::int64_t>(bytes / sizeof(float)) / group.group.size();
  std::string error;
  for (const std::int64_t count : {std::int64_t{1}, std::int64_t{1000}, most}) {
    const std::string found = find_error_of(group, std::min(count, most));
    if (error.empty()) error = found;
  }
  return error;
}

std::string CollectiveTrial::find_error_of(const comm::TensorGroup& of, std::int64_t num_elements) {
  const comm::Group& group = of.group;
  const int rank = group.rank(), size = group.size();
  const std::int64_t n = num_elements, all = n * size;
  std::string error;
  const auto check = [&](const char* call, const Tensor& result, const std::function<float(std::int64_t)>& right) {
    const std::string found = difference(call, download(result), values(result.num_elements(), right));
    if (error.empty()) error = found;
  };
  const auto own = [&](std::int64_t i) { return value(rank, i); };
  const std::int64_t factors = sum_of_factors(size);
  const auto sum = [&](std::int64_t i) { return static_cast<float>(factors * (i % 61 + 1)); };

  if (has(of, Call::all_reduce)) {
    upload(floats(large_, all), values(all, own));
    collectives_.all_reduce(group, floats(large_, all), comm::ReduceOp::sum, *stream_);
    check("all_reduce", floats(large_, all), sum);
  }

  upload(floats(small_, n), values(n, own));
  collectives_.all_gather(group, floats(large_, all), floats(small_, n), *stream_);
  check("all_gather", floats(large_, all), [&](std::int64_t i) { return value(static_cast<int>(i / n), i % n); });

  if (has(of, Call::reduce_scatter_add)) {
    upload(floats(small_, n), values(n, [](std::int64_t) { return 0.5F; }));
    upload(floats(large_, all), values(all, own));
    collectives_.reduce_scatter_add(group, floats(small_, n), floats(large_, all), *stream_);
    check("reduce_scatter_add", floats(small_, n), [&](std::int64_t i) { return 0.5F + sum(rank * n + i); });
  }

  if (has(of, Call::exchange)) {
    upload(floats(small_, n), values(n, own));
    const int from = (rank + size - 1) % size;
    collectives_.exchange(group, floats(small_, n), (rank + 1) % size, floats(large_, n), from, *stream_);
    check("exchange", floats(large_, n), [&](std::int64_t i) { return value(from, i); });
  }
  return error;
}

void CollectiveTrial::make_call(const comm::Group& group, Call call, std::int64_t num_elements) {
  const int rank = group.rank(), size = group.size();
  const std::int64_t part = num_elements / size;
  switch (call) {
    case Call::all_gather:
      return collectives_.all_gather(group, floats(large_, part * size), floats(small_, part), *stream_);
    case Call::reduce_scatter_add:
      return collectives_.reduce_scatter_add(group, floats(small_, part), floats(large_, part * size), *stream_);
    case Call::all_reduce:
      return collectives_.all_reduce(group, floats(large_, num_elements), comm::ReduceOp::max, *stream_);
    case Call::exchange:
      return collectives_.exchange(group, floats(small_, num_elements), (rank + 1) % size, floats(large_, num_elements),
                                   (rank + size - 1) % size, *stream_);
  }
}

double CollectiveTrial::time_s(const comm::Group& group, Call call, std::int64_t num_elements, int num_calls) {
  barrier(group);
  const auto start = std::chrono::steady_clock::now();
  for (int i = 0; i < num_calls; ++i) make_call(group, call, num_elements);
  stream_->synchronize();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / num_calls;
}

double CollectiveTrial::measure_s(const comm::Group& group, Call call, std::size_t bytes) {
  SFT_ENSURE(bytes <= max_bytes_, "a trial has memory for its tensors");
  const auto num_elements = static_cast<std::int64_t>(bytes / sizeof(float));
  std::array<double, 1> first_s{time_s(group, call, num_elements, 1)};
  group.max(std::span<double>(first_s));  // all ranks make the same calls
  constexpr double round_s = 5e-3, long_s = 50e-3, most_calls = 20;
  if (first_s[0] > long_s) return first_s[0];
  constexpr int num_rounds = 4;
  const auto num_calls = static_cast<int>(std::clamp(round_s / first_s[0], 1.0, most_calls));
  double best_s = first_s[0];
  for (int round = 0; round < num_rounds; ++round) {
    best_s = std::min(best_s, time_s(group, call, num_elements, num_calls));
  }
  return best_s;
}

double CollectiveTrial::sent_bytes(Call call, int group_size, std::size_t bytes) {
  const auto all = static_cast<double>(bytes);
  if (call == Call::exchange) return all;
  const double of_others = all * (group_size - 1) / group_size;
  return call == Call::all_reduce ? 2 * of_others : of_others;
}

}  // namespace sft::check
