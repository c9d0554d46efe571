// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/matmul.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <string>
#include <utility>

#include "ops/cuda/cublas_support.hpp"
#include "ops/cuda/kernels/kernels.hpp"
#include "ops/cuda/view.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"

namespace sft::ops::cuda {
namespace {

/// Shapes of products that are kept: some 200 bytes of host memory each. When there are more, all are forgotten.
constexpr std::size_t max_kept_products = 4096;

/// The largest of the powers of two that algorithms ask for and that divides the address.
std::uint32_t alignment_of(const void* data) {
  const auto address = reinterpret_cast<std::uintptr_t>(data);
  for (const std::uint32_t bytes : {256U, 16U, 8U, 4U}) {
    if (address % bytes == 0) return bytes;
  }
  return 2;
}

/// A row-major matrix as the column-major transpose that lies in the same memory.
class Layout {
 public:
  explicit Layout(const ConstTensor& x) {
    check(cublasLtMatrixLayoutCreate(&layout_, type_of(x), static_cast<std::uint64_t>(x.shape[1]),
                                     static_cast<std::uint64_t>(x.shape[0]), row_stride(x)),
          "cublasLtMatrixLayoutCreate");
  }
  ~Layout() { cublasLtMatrixLayoutDestroy(layout_); }
  Layout(const Layout&) = delete;
  Layout& operator=(const Layout&) = delete;

  [[nodiscard]] cublasLtMatrixLayout_t get() const { return layout_; }

 private:
  cublasLtMatrixLayout_t layout_ = nullptr;
};

/// What is multiplied how.
class Operation {
 public:
  explicit Operation(const Matmul& product) {
    // No TF32: its products have 10 bits.
    check(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    // c^T = op(b)^T op(a)^T: column by column, which is how c lies in memory, b comes first.
    set(CUBLASLT_MATMUL_DESC_TRANSA, product.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, product.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
  }
  ~Operation() { cublasLtMatmulDescDestroy(operation_); }
  Operation(const Operation&) = delete;
  Operation& operator=(const Operation&) = delete;

  template <class T>
  void set(cublasLtMatmulDescAttributes_t attribute, const T& value) {
    check(cublasLtMatmulDescSetAttribute(operation_, attribute, &value, sizeof(value)),
          "cublasLtMatmulDescSetAttribute");
  }
  void set_bias(const void* bias) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, bias != nullptr ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_DEFAULT);
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, bias);
  }
  [[nodiscard]] cublasLtMatmulDesc_t get() const { return operation_; }

 private:
  cublasLtMatmulDesc_t operation_ = nullptr;
};

/// What an algorithm may use.
class Preference {
 public:
  Preference() { check(cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate"); }
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;

  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute");
  }
  [[nodiscard]] cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace

/// How to run products of one shape.
class MatmulEngine::Plan {
 public:
  explicit Plan(const Matmul& product) : operation_(product), a_(product.a), b_(product.b), c_(product.c) {}

  /// Takes the first algorithm of the library's heuristic, with the bias as part of the product or without it. False
  /// where there is none.
  bool choose(cublasLtHandle_t library, const Preference& preference, const void* bias) {
    has_bias_ = bias != nullptr;
    operation_.set_bias(bias);
    cublasLtMatmulHeuristicResult_t result{};
    int count = 0;
    const cublasStatus_t status = cublasLtMatmulAlgoGetHeuristic(
        library, operation_.get(), b_.get(), a_.get(), c_.get(), c_.get(), preference.get(), 1, &result, &count);
    if (status != CUBLAS_STATUS_SUCCESS || count == 0 || result.state != CUBLAS_STATUS_SUCCESS) return false;
    algorithm_ = result.algo;
    workspace_bytes_ = result.workspaceSize;
    return true;
  }

  void run(cublasLtHandle_t library, const Matmul& product, Workspace workspace, cudaStream_t stream) {
    SFT_ENSURE(workspace_bytes_ <= workspace.num_bytes, "matmul: the workspace is no smaller than before");
    const float one = 1.0F, beta = product.accumulate ? 1.0F : 0.0F;
    if (has_bias_) operation_.set_bias(product.bias.data);
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

MatmulEngine::MatmulEngine(cudaStream_t stream, const ProductLimits& limits) : stream_(stream), limits_(limits) {
  check(cublasLtCreate(&library_), "cublasLtCreate");
}

MatmulEngine::~MatmulEngine() {
  plans_.clear();
  cublasLtDestroy(library_);
}

std::size_t MatmulEngine::KeyHash::operator()(const Key& key) const {
  std::uint64_t hash = key.flags;
  const auto add = [&](std::uint64_t part) {
    hash = (hash ^ part) * 0xff51afd7ed558ccdU;
    hash ^= hash >> 32U;
  };
  for (const std::int64_t size : key.sizes) add(static_cast<std::uint64_t>(size));
  for (const std::uint32_t alignment : key.alignments) add(alignment);
  return hash;
}

MatmulEngine::Key MatmulEngine::key_of(const Matmul& product) {
  const auto& [a, b, c, transpose_a, transpose_b, accumulate, bias] = product;
  return {{c.shape[0], c.shape[1], a.shape[transpose_a ? 0 : 1], row_stride(a), row_stride(b), row_stride(c)},
          flags_of(product),
          {alignment_of(a.data), alignment_of(b.data), alignment_of(c.data), alignment_of(bias.data)}};
}

std::unique_ptr<MatmulEngine::Plan> MatmulEngine::make_plan(const Matmul& product, const Key& key,
                                                            Workspace workspace) const {
  Preference preference;
  preference.set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace.num_bytes));
  // Parts of a split sum are added up in float32, in a step of its own: not in the output, in the order of arrival.
  preference.set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                 static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
  const auto [a_alignment, b_alignment, c_alignment, bias_alignment] = key.alignments;
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, b_alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, a_alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, c_alignment);
  preference.set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, c_alignment);
  auto plan = std::make_unique<Plan>(product);
  // The library adds a bias of c's dtype.
  const bool is_bias_of_c = product.bias.data != nullptr && product.bias.dtype == product.c.dtype;
  if (is_bias_of_c && plan->choose(library_, preference, product.bias.data)) return plan;
  if (plan->choose(library_, preference, nullptr)) return plan;
  const auto [m, n, k, a_stride, b_stride, c_stride] = key.sizes;
  throw Error(ExitStatus::failure, "cuBLASLt has no algorithm for a product",
              fmt::format("{} x {} x {} with strides {}, {}, {} in {}", m, n, k, a_stride, b_stride, c_stride,
                          product.a.dtype == DType::bf16 ? "bf16" : "float32"),
              "use a newer CUDA toolkit and driver, or report this shape");
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
  const Key key = key_of(product);
  auto found = plans_.find(key);
  if (found == plans_.end()) {
    if (plans_.size() >= max_kept_products) plans_.clear();
    found = plans_.emplace(key, make_plan(product, key, workspace)).first;
  }
  found->second->run(library_, product, workspace, stream_);
}

}  // namespace sft::ops::cuda
