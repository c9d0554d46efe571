// SPDX-License-Identifier: Apache-2.0
// Products of 8-bit floats: what the emulated cuBLASLt takes and refuses, as the real one is documented to. Their
// numbers are compared with the CPU's in tests/emulation/ops/fp8_test.cpp.

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <boost/test/unit_test.hpp>
#include <cstdint>

namespace {

/// A product in the form that all GPUs have.
struct Form {
  cudaDataType a = CUDA_R_8F_E4M3, b = CUDA_R_8F_E5M2, d = CUDA_R_16BF;
  std::uint64_t m = 16, n = 12, k = 32;
  std::int64_t a_stride = 32, d_stride = 16;
  cublasOperation_t op_a = CUBLAS_OP_T, op_b = CUBLAS_OP_N;
  std::int32_t a_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F, b_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  cublasComputeType_t compute_type = CUBLAS_COMPUTE_32F;
  std::int8_t fast = 0;
  std::int32_t bias_type = -1;  ///< -1: no bias
};

cublasStatus_t query(const Form& f) {
  cublasLtHandle_t handle = nullptr;
  cublasLtCreate(&handle);
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatmulDescCreate(&desc, f.compute_type, CUDA_R_32F);
  const auto set = [&](cublasLtMatmulDescAttributes_t name, const auto& value) {
    BOOST_REQUIRE(cublasLtMatmulDescSetAttribute(desc, name, &value, sizeof value) == CUBLAS_STATUS_SUCCESS);
  };
  set(CUBLASLT_MATMUL_DESC_TRANSA, f.op_a);
  set(CUBLASLT_MATMUL_DESC_TRANSB, f.op_b);
  set(CUBLASLT_MATMUL_DESC_A_SCALE_MODE, f.a_mode);
  set(CUBLASLT_MATMUL_DESC_B_SCALE_MODE, f.b_mode);
  set(CUBLASLT_MATMUL_DESC_FAST_ACCUM, f.fast);
  if (f.bias_type >= 0) {
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, f.bias_type);
  }
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  if (f.op_a == CUBLAS_OP_T) {
    cublasLtMatrixLayoutCreate(&a, f.a, f.k, f.m, f.a_stride);
  } else {
    cublasLtMatrixLayoutCreate(&a, f.a, f.m, f.k, f.a_stride);
  }
  cublasLtMatrixLayoutCreate(&b, f.b, f.op_b == CUBLAS_OP_N ? f.k : f.n, f.op_b == CUBLAS_OP_N ? f.n : f.k, 48);
  cublasLtMatrixLayoutCreate(&d, f.d, f.m, f.n, f.d_stride);
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulPreferenceCreate(&preference);
  cublasLtMatmulHeuristicResult_t found{};
  int num_found = 0;
  const cublasStatus_t status =
      cublasLtMatmulAlgoGetHeuristic(handle, desc, a, b, d, d, preference, 1, &found, &num_found);
  cublasLtMatmulPreferenceDestroy(preference);
  for (cublasLtMatrixLayout_t layout : {a, b, d}) cublasLtMatrixLayoutDestroy(layout);
  cublasLtMatmulDescDestroy(desc);
  cublasLtDestroy(handle);
  return status;
}

bool is_taken(const Form& form) { return query(form) == CUBLAS_STATUS_SUCCESS; }
bool is_refused(const Form& form) { return query(form) == CUBLAS_STATUS_NOT_SUPPORTED; }

constexpr std::int32_t vectors = CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F,
                       blocks = CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F,
                       scalar = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;

int capability() {
  int major = 0, minor = 0;
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, 0);
  cudaDeviceGetAttribute(&minor, cudaDevAttrComputeCapabilityMinor, 0);
  return 10 * major + minor;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(fp8)

BOOST_AUTO_TEST_CASE(gpus_that_have_them) {
  BOOST_TEST(is_taken({}) == (capability() >= 89));
  BOOST_TEST(is_taken({.a_mode = blocks, .b_mode = vectors}) == (capability() == 90));
  BOOST_TEST(is_taken({.a_mode = vectors, .b_mode = vectors}) == (capability() == 90));
}

BOOST_AUTO_TEST_CASE(forms) {
  if (capability() != 90) return;
  BOOST_TEST(is_taken({.a = CUDA_R_8F_E5M2, .b = CUDA_R_8F_E4M3, .d = CUDA_R_32F}));
  BOOST_TEST(is_refused({.a = CUDA_R_8F_E5M2, .b = CUDA_R_8F_E5M2}));
  BOOST_TEST(is_refused({.a = CUDA_R_16BF}));
  BOOST_TEST(is_refused({.d = CUDA_R_64F}));
  BOOST_TEST(is_refused({.compute_type = CUBLAS_COMPUTE_32F_FAST_TF32}));
  BOOST_TEST(is_refused({.op_a = CUBLAS_OP_N}));
  BOOST_TEST(is_refused({.n = 32, .op_b = CUBLAS_OP_T}));
  BOOST_TEST(is_refused({.k = 24}));
  BOOST_TEST(is_refused({.a_stride = 40}));
  BOOST_TEST(is_refused({.m = 12}));
  BOOST_TEST(is_taken({.d = CUDA_R_32F, .m = 12}));
  BOOST_TEST(is_refused({.d_stride = 20}));
  BOOST_TEST(is_taken({.n = 11}));
  BOOST_TEST(is_taken({.bias_type = CUDA_R_16BF}));
  BOOST_TEST(is_refused({.bias_type = CUDA_R_32F}));
  BOOST_TEST(is_refused({.d = CUDA_R_32F, .bias_type = CUDA_R_32F}));
}

BOOST_AUTO_TEST_CASE(scales_of_tiles) {
  if (capability() != 90) return;
  BOOST_TEST(is_refused({.a_mode = blocks, .b_mode = blocks}));
  BOOST_TEST(is_refused({.a_mode = blocks, .b_mode = scalar}));
  BOOST_TEST(is_refused({.a_mode = CUBLASLT_MATMUL_MATRIX_SCALE_VEC32_UE8M0}));
  BOOST_TEST(is_refused({.n = 11, .a_mode = blocks, .b_mode = vectors}));
  BOOST_TEST(is_refused({.a_mode = blocks, .b_mode = vectors, .fast = 1}));
  BOOST_TEST(is_taken({.fast = 1}));
}

BOOST_AUTO_TEST_SUITE_END()
