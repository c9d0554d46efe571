// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/product_timing.hpp"

#include <algorithm>
#include <cstddef>
#include <limits>

namespace sft::ops::cuda {
namespace {

/// Device time of queued work.
class Stopwatch {
 public:
  explicit Stopwatch(cudaStream_t stream) : stream_(stream) {
    for (cudaEvent_t* event : {&begin_, &end_}) check(cudaEventCreate(event), "cudaEventCreate");
  }
  ~Stopwatch() {
    for (cudaEvent_t event : {begin_, end_}) cudaEventDestroy(event);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  /// Seconds of what `queue` queues. Waits for it.
  [[nodiscard]] double time(const std::function<void()>& queue) const {
    check(cudaEventRecord(begin_, stream_), "cudaEventRecord");
    queue();
    check(cudaEventRecord(end_, stream_), "cudaEventRecord");
    check(cudaEventSynchronize(end_), "cudaEventSynchronize");
    float milliseconds = 0.0F;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_), "cudaEventElapsedTime");
    return static_cast<double>(milliseconds) * 1e-3;
  }

 private:
  cudaStream_t stream_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
};

}  // namespace

ProductTiming time_proposals(CublasltPlan& plan, cublasLtHandle_t library, const Preference& preference,
                             const void* bias, const std::function<void()>& run, cudaStream_t stream) {
  constexpr int most_proposals = 16, num_runs = 5;
  const Stopwatch stopwatch(stream);
  const auto best_of_runs = [&] {
    run();  // loads the kernel
    double best_s = std::numeric_limits<double>::infinity();
    for (int i = 0; i < num_runs; ++i) best_s = std::min(best_s, stopwatch.time(run));
    return best_s;
  };
  ProductTiming timing;
  timing.first_s = timing.fastest_s = best_of_runs();
  timing.algorithm = plan.algorithm();
  const auto proposed = plan.propose(library, preference, bias, most_proposals);
  for (std::size_t i = 1; i < proposed.size(); ++i) {  // the first is timed
    plan.take(proposed[i], bias != nullptr);
    const double seconds = best_of_runs();
    if (seconds >= timing.fastest_s || seconds > timing.first_s * (1.0 - least_gain)) continue;
    timing.fastest_s = seconds;
    timing.algorithm = plan.algorithm();
  }
  return timing;
}

}  // namespace sft::ops::cuda
