// SPDX-License-Identifier: Apache-2.0
#pragma once
// What products through cuBLASLt are described by. The library's matrices are column-major, ours row-major: c^T =
// op(b)^T op(a)^T, and a row-major matrix lies in memory as its column-major transpose. So its first operand is our b.

#include <cublasLt.h>

#include <array>
#include <cstdint>

#include "ops/cuda/cublas_support.hpp"
#include "ops/cuda/kernels/view.hpp"
#include "ops/product_key.hpp"
#include "ops/views/tensor.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops::cuda {

/// What a row-major matrix is described by; `stride` in elements.
struct MatrixForm {
  cudaDataType type;
  std::int64_t rows, columns, stride;
};
[[nodiscard]] inline MatrixForm form_of(const ConstTensor& x) {
  return {type_of(x), x.shape[0], x.shape[1], row_stride(x)};
}

/// A row-major matrix.
class Layout {
 public:
  explicit Layout(const MatrixForm& x) {
    check(cublasLtMatrixLayoutCreate(&layout_, x.type, static_cast<std::uint64_t>(x.columns),
                                     static_cast<std::uint64_t>(x.rows), x.stride),
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
  /// Of the library's operands, the second of which is our a.
  Operation(bool transpose_first, bool transpose_second) {
    // No TF32: its products have 10 bits.
    check(cublasLtMatmulDescCreate(&operation_, CUBLAS_COMPUTE_32F, CUDA_R_32F), "cublasLtMatmulDescCreate");
    set(CUBLASLT_MATMUL_DESC_TRANSA, transpose_first ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, transpose_second ? CUBLAS_OP_T : CUBLAS_OP_N);
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
  /// `alignments`: of our a, b and c, bytes.
  template <std::size_t N>
  Preference(const std::array<std::uint32_t, N>& alignments, Workspace workspace) {
    check(cublasLtMatmulPreferenceCreate(&preference_), "cublasLtMatmulPreferenceCreate");
    set(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, static_cast<std::uint64_t>(workspace.num_bytes));
    // Parts of a split sum are added up in float32, in a step of its own: not in the output, in the order of arrival.
    set(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, alignments[1]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, alignments[0]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, alignments[2]);
    set(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, alignments[2]);
  }
  ~Preference() { cublasLtMatmulPreferenceDestroy(preference_); }
  Preference(const Preference&) = delete;
  Preference& operator=(const Preference&) = delete;

  [[nodiscard]] cublasLtMatmulPreference_t get() const { return preference_; }

 private:
  template <class T>
  void set(cublasLtMatmulPreferenceAttributes_t attribute, const T& value) {
    check(cublasLtMatmulPreferenceSetAttribute(preference_, attribute, &value, sizeof(value)),
          "cublasLtMatmulPreferenceSetAttribute");
  }

  cublasLtMatmulPreference_t preference_ = nullptr;
};

}  // namespace sft::ops::cuda
