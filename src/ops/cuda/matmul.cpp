// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/matmul.hpp"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <optional>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "ops/cuda/cublaslt_objects.hpp"
#include "ops/cuda/kernels/kernels.hpp"
#include "ops/cuda/view.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/core/gpu_launches.hpp"

namespace sft::ops::cuda {
namespace {

/// Shapes of products that are kept: some 200 bytes of host memory each. When there are more, all are forgotten.
constexpr std::size_t max_kept_products = 4096;

/// A bias that is part of the product is of c's dtype.
bool is_bias_of_product(const Matmul& product) {
  return product.bias.data != nullptr && product.bias.dtype == product.c.dtype;
}

/// An algorithm as text: whether the bias is part of the product, and the numbers of the library.
std::string text_of(const cublasLtMatmulAlgo_t& algorithm, bool has_bias) {
  return fmt::format("{} {:016x}", has_bias ? "bias" : "plain", fmt::join(algorithm.data, " "));
}

/// The inverse; nothing for other text.
std::optional<std::pair<cublasLtMatmulAlgo_t, bool>> algorithm_of(const std::string& text) {
  std::istringstream words(text);
  std::string kind;
  cublasLtMatmulAlgo_t algorithm{};
  words >> kind >> std::hex;
  for (auto& number : algorithm.data) words >> number;
  if (!words || (kind != "bias" && kind != "plain")) return std::nullopt;
  return std::pair(algorithm, kind == "bias");
}

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

/// How to run products of one shape.
class MatmulEngine::Plan {
 public:
  explicit Plan(const Matmul& product)
      : operation_(product.transpose_b, product.transpose_a), a_(product.a), b_(product.b), c_(product.c) {}

  /// What the library's heuristic proposes, best first, `most` at most, with the bias as part of the product or
  /// without it.
  [[nodiscard]] std::vector<cublasLtMatmulHeuristicResult_t> propose(cublasLtHandle_t library,
                                                                     const Preference& preference, const void* bias,
                                                                     int most) {
    operation_.set_bias(bias);
    std::vector<cublasLtMatmulHeuristicResult_t> results(static_cast<std::size_t>(most));
    int count = 0;
    const cublasStatus_t status =
        cublasLtMatmulAlgoGetHeuristic(library, operation_.get(), b_.get(), a_.get(), c_.get(), c_.get(),
                                       preference.get(), most, results.data(), &count);
    results.resize(status == CUBLAS_STATUS_SUCCESS ? static_cast<std::size_t>(count) : 0);
    std::erase_if(results, [](const auto& result) { return result.state != CUBLAS_STATUS_SUCCESS; });
    return results;
  }

  void take(const cublasLtMatmulHeuristicResult_t& result, bool has_bias) {
    has_bias_ = has_bias;
    algorithm_ = result.algo;
    workspace_bytes_ = result.workspaceSize;
  }

  /// Takes this algorithm if the library has it for the product, within the workspace.
  [[nodiscard]] bool take_if_fits(cublasLtHandle_t library, const cublasLtMatmulAlgo_t& algorithm, const void* bias,
                                  Workspace workspace) {
    operation_.set_bias(bias);
    cublasLtMatmulHeuristicResult_t result{};
    const cublasStatus_t status =
        cublasLtMatmulAlgoCheck(library, operation_.get(), b_.get(), a_.get(), c_.get(), c_.get(), &algorithm, &result);
    if (status != CUBLAS_STATUS_SUCCESS || result.state != CUBLAS_STATUS_SUCCESS) return false;
    if (result.workspaceSize > workspace.num_bytes) return false;
    result.algo = algorithm;
    take(result, bias != nullptr);
    return true;
  }

  /// As part of the product.
  [[nodiscard]] bool adds_bias() const { return has_bias_; }
  [[nodiscard]] std::string algorithm() const { return text_of(algorithm_, has_bias_); }

  void run(cublasLtHandle_t library, const Matmul& product, Workspace workspace, cudaStream_t stream) {
    SFT_ENSURE(workspace_bytes_ <= workspace.num_bytes, "matmul: the workspace is no smaller than before");
    const float one = 1.0F, beta = product.accumulate ? 1.0F : 0.0F;
    if (has_bias_) operation_.set_bias(product.bias.data);
    note_launch("cublasLtMatmul", stream);
    check(cublasLtMatmul(library, operation_.get(), &one, product.b.data, b_.get(), product.a.data, a_.get(), &beta,
                         product.c.data, c_.get(), product.c.data, c_.get(), &algorithm_, workspace.data,
                         workspace_bytes_, stream),
          "cublasLtMatmul");
    if (product.bias.data != nullptr && !has_bias_) {
      add_bias(view_of(product.c), {product.bias.data, product.bias.dtype == DType::bf16}, stream);
    }
  }

 private:
  Operation operation_;
  Layout a_, b_, c_;
  cublasLtMatmulAlgo_t algorithm_{};
  std::size_t workspace_bytes_ = 0;
  bool has_bias_ = false;  ///< as part of the product
};

MatmulEngine::MatmulEngine(cudaStream_t stream, const ProductLimits& limits, const MatmulAlgorithms* algorithms)
    : stream_(stream), limits_(limits), algorithms_(algorithms) {
  check(cublasLtCreate(&library_), "cublasLtCreate");
}

MatmulEngine::~MatmulEngine() {
  plans_.clear();
  cublasLtDestroy(library_);
}

std::unique_ptr<MatmulEngine::Plan> MatmulEngine::make_plan(const Matmul& product, const ProductKey& key,
                                                            Workspace workspace) const {
  if (algorithms_ != nullptr) {
    const auto listed = algorithms_->of_products.find(key.text());
    const auto algorithm = listed != algorithms_->of_products.end() ? algorithm_of(listed->second) : std::nullopt;
    if (algorithm) {
      auto plan = std::make_unique<Plan>(product);
      const bool has_bias = algorithm->second && is_bias_of_product(product);
      if (plan->take_if_fits(library_, algorithm->first, has_bias ? product.bias.data : nullptr, workspace)) {
        return plan;
      }
    }
  }
  return first_plan(product, key, workspace);
}

std::unique_ptr<MatmulEngine::Plan> MatmulEngine::first_plan(const Matmul& product, const ProductKey& key,
                                                             Workspace workspace) const {
  const Preference preference(key.alignments, workspace);
  auto plan = std::make_unique<Plan>(product);
  for (const void* bias :
       {is_bias_of_product(product) ? product.bias.data : nullptr, static_cast<const void*>(nullptr)}) {
    const auto proposed = plan->propose(library_, preference, bias, 1);
    if (proposed.empty()) continue;
    plan->take(proposed.front(), bias != nullptr);
    return plan;
  }
  const auto [m, n, k, a_stride, b_stride, c_stride] = key.sizes;
  throw Error(ExitStatus::failure, "cuBLASLt has no algorithm for a product",
              fmt::format("{} x {} x {} with strides {}, {}, {} in {}", m, n, k, a_stride, b_stride, c_stride,
                          product.a.dtype == DType::bf16 ? "bf16" : "float32"),
              "use a newer CUDA toolkit and driver, or report this shape");
}

MatmulEngine::Timing MatmulEngine::time(const Matmul& product, Workspace workspace) {
  constexpr int most_proposals = 16, num_runs = 5;
  const ProductKey key = key_of(product);
  const std::unique_ptr<Plan> plan = first_plan(product, key, workspace);
  const Stopwatch stopwatch(stream_);
  const auto best_of_runs = [&] {
    const auto run = [&] { plan->run(library_, product, workspace, stream_); };
    run();  // loads the kernel
    double best_s = std::numeric_limits<double>::infinity();
    for (int i = 0; i < num_runs; ++i) best_s = std::min(best_s, stopwatch.time(run));
    return best_s;
  };
  Timing timing;
  timing.first_s = timing.fastest_s = best_of_runs();
  timing.algorithm = plan->algorithm();
  const void* const bias = plan->adds_bias() ? product.bias.data : nullptr;
  const Preference preference(key.alignments, workspace);
  const auto proposed = plan->propose(library_, preference, bias, most_proposals);
  for (std::size_t i = 1; i < proposed.size(); ++i) {  // the first is timed
    plan->take(proposed[i], bias != nullptr);
    const double seconds = best_of_runs();
    if (seconds >= timing.fastest_s || seconds > timing.first_s * (1.0 - least_gain)) continue;
    timing.fastest_s = seconds;
    timing.algorithm = plan->algorithm();
  }
  return timing;
}

void MatmulEngine::run(const Matmul& product, Workspace workspace) {
  const auto& [a, b, c, transpose_a, transpose_b, accumulate, bias] = product;
  SFT_ENSURE(a.ndim == 2 && b.ndim == 2 && c.ndim == 2, "matmul: matrices expected");
  SFT_ENSURE(a.shape[transpose_a ? 1 : 0] == c.shape[0], "matmul: shapes fit");
  SFT_ENSURE(b.shape[transpose_b ? 0 : 1] == c.shape[1], "matmul: shapes fit");
  SFT_ENSURE(a.shape[transpose_a ? 0 : 1] == b.shape[transpose_b ? 1 : 0], "matmul: shapes fit");
  SFT_ENSURE(a.dtype == b.dtype && (c.dtype == a.dtype || c.dtype == DType::float32), "matmul: dtypes fit");
  if (c.empty()) return;
  if (a.shape[transpose_a ? 0 : 1] == 0) {  // an empty sum
    if (!accumulate) fill(view_of(c), 0.0F, stream_);
    if (bias.data != nullptr) add_bias(view_of(c), {bias.data, bias.dtype == DType::bf16}, stream_);
    return;
  }
  for_each_block(product, limits_, [&](const Matmul& block) { run_block(block, workspace); });
}

void MatmulEngine::run_block(const Matmul& product, Workspace workspace) {
  const ProductKey key = key_of(product);
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    if (plans_.size() >= max_kept_products) plans_.clear();
    found = plans_.emplace(key, make_plan(product, key, workspace)).first;
  }
  found->second->run(library_, product, workspace, stream_);
}

}  // namespace sft::ops::cuda
