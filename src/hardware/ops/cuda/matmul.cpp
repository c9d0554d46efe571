// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/matmul.hpp"

#include <fmt/format.h>

#include "ops/cuda/cublaslt_plan.hpp"
#include "ops/cuda/kernels/kernels.hpp"
#include "ops/cuda/kernels/run.hpp"
#include "ops/views/tensor.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"

namespace sft::ops::cuda {
namespace {

/// Shapes of products that are kept: some 200 bytes of host memory each. When there are more, all are forgotten.
constexpr std::size_t max_kept_products = 4096;

/// A bias that is part of the product is of c's dtype.
bool is_bias_of_product(const Matmul& product) {
  return product.bias.data != nullptr && product.bias.dtype == product.c.dtype;
}

}  // namespace

/// How to run products of one shape.
class MatmulEngine::Plan : public CublasltPlan {
 public:
  explicit Plan(const Matmul& product)
      : CublasltPlan(product.transpose_a, product.transpose_b, form_of(product.a), form_of(product.b),
                     form_of(product.c)) {}

  void run(cublasLtHandle_t library, const Matmul& product, Workspace workspace, cudaStream_t stream) {
    if (adds_bias()) operation().set_bias(product.bias.data);
    multiply(library, {.a = product.a.data, .b = product.b.data, .c = product.c.data, .accumulate = product.accumulate},
             workspace, stream);
    if (product.bias.data != nullptr && !adds_bias()) {
      add_bias(view_of(product.c), {product.bias.data, product.bias.dtype == DType::bf16}, stream);
    }
  }
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
  const auto* const listed = algorithms_ != nullptr ? algorithms_->find(key.text()) : nullptr;
  if (listed != nullptr) {
    auto plan = std::make_unique<Plan>(product);
    const void* const bias = is_bias_of_product(product) ? product.bias.data : nullptr;
    if (plan->take_if_fits(library_, *listed, bias, workspace)) return plan;
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

ProductTiming MatmulEngine::time(const Matmul& product, Workspace workspace) {
  const ProductKey key = key_of(product);
  const std::unique_ptr<Plan> plan = first_plan(product, key, workspace);
  return time_proposals(
      *plan, library_, Preference(key.alignments, workspace), plan->adds_bias() ? product.bias.data : nullptr,
      [&] { plan->run(library_, product, workspace, stream_); }, stream_);
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
    if (!accumulate) cuda::run(Fill{c, 0.0F}, Context{stream_, {}});
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
