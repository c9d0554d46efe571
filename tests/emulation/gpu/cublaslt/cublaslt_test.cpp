// SPDX-License-Identifier: Apache-2.0
// The emulated cuBLASLt multiplies as the real one is documented to, and refuses what that refuses.

#include <cublasLt.h>
#include <cuda_bf16.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "handle.hpp"

namespace {

/// Device memory with room around it, so that its address can be moved.
class Block {
 public:
  explicit Block(std::size_t bytes) {
    BOOST_REQUIRE(cudaMalloc(&data_, bytes) == cudaSuccess);
    BOOST_REQUIRE(cudaMemset(data_, 0xff, bytes) == cudaSuccess);
    BOOST_REQUIRE(cudaDeviceSynchronize() == cudaSuccess);  // streams of the test do not wait for the default one
  }
  ~Block() { cudaFree(data_); }
  Block(const Block&) = delete;
  Block& operator=(const Block&) = delete;
  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(data_); }

 private:
  void* data_ = nullptr;
};

/// One product, ready to run: D (m, n) = alpha op(A) op(B) + beta C + bias, column-major.
struct Case {
  std::uint64_t m = 5, n = 7, k = 3;
  cublasOperation_t op_a = CUBLAS_OP_N, op_b = CUBLAS_OP_N;
  cudaDataType ab_type = CUDA_R_32F, cd_type = CUDA_R_32F;
  cublasComputeType_t compute_type = CUBLAS_COMPUTE_32F;
  std::int64_t padding = 2;  ///< of every leading dim
  float alpha = 1.5f, beta = 0.0f;
  bool has_bias = false;
  cudaDataType bias_type = CUDA_R_32F;
  std::uint32_t alignment_bytes = 16;  ///< that the query promises
  std::uint64_t max_workspace_bytes = 4096;
  // What goes wrong when the product runs, in bytes.
  std::size_t shift_a = 0, shift_d = 0, shift_bias = 0, missing_workspace = 0, shift_workspace = 0;
  bool use_host_memory = false, destroy_layout = false, change_m_after_query = false;
};

float input(std::uint64_t i, std::uint64_t j) { return static_cast<float>((i * 7 + j * 3) % 11) - 4.5f; }

void put(std::vector<std::byte>& bytes, std::size_t index, cudaDataType type, float value) {
  if (type == CUDA_R_16BF) {
    const __nv_bfloat16 rounded = __float2bfloat16_rn(value);
    std::memcpy(bytes.data() + index * 2, &rounded, 2);
  } else {
    std::memcpy(bytes.data() + index * 4, &value, 4);
  }
}

float get(const std::vector<std::byte>& bytes, std::size_t index, cudaDataType type) {
  if (type == CUDA_R_16BF) {
    __nv_bfloat16 value;
    std::memcpy(&value, bytes.data() + index * 2, 2);
    return __bfloat162float(value);
  }
  float value = 0;
  std::memcpy(&value, bytes.data() + index * 4, 4);
  return value;
}

std::size_t size_of(cudaDataType type) { return type == CUDA_R_16BF ? 2 : 4; }

/// A column-major matrix in device memory, NaN between its columns.
struct Matrix {
  std::uint64_t rows, columns;
  std::int64_t leading_dim;
  cudaDataType type;
  Block block;
  cublasLtMatrixLayout_t layout = nullptr;

  Matrix(std::uint64_t num_rows, std::uint64_t num_columns, std::int64_t padding, cudaDataType element_type)
      : rows(num_rows),
        columns(num_columns),
        leading_dim(static_cast<std::int64_t>(num_rows) + padding),
        type(element_type),
        block(bytes() + 512) {
    cublasLtMatrixLayoutCreate(&layout, type, rows, columns, leading_dim);
  }
  ~Matrix() { cublasLtMatrixLayoutDestroy(layout); }
  [[nodiscard]] std::size_t bytes() const {
    return std::max(static_cast<std::uint64_t>(leading_dim), rows) * columns * size_of(type);
  }
  [[nodiscard]] std::size_t index(std::uint64_t i, std::uint64_t j) const {
    return i + j * static_cast<std::uint64_t>(leading_dim);
  }
  void fill(float (*value)(std::uint64_t, std::uint64_t)) const {
    std::vector<std::byte> host(bytes(), std::byte{0xff});
    for (std::uint64_t j = 0; j < columns; ++j) {
      for (std::uint64_t i = 0; i < rows; ++i) put(host, index(i, j), type, value(i, j));
    }
    cudaMemcpy(block.data(), host.data(), bytes(), cudaMemcpyHostToDevice);
  }
  [[nodiscard]] std::vector<std::byte> host() const {
    std::vector<std::byte> result(bytes());
    cudaMemcpy(result.data(), block.data(), bytes(), cudaMemcpyDeviceToHost);
    return result;
  }
};

template <class T>
void set(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name, T value) {
  BOOST_REQUIRE(cublasLtMatmulDescSetAttribute(desc, name, &value, sizeof value) == CUBLAS_STATUS_SUCCESS);
}

/// What the query and the call returned. Where both are well, the result has been compared.
struct Outcome {
  cublasStatus_t query = CUBLAS_STATUS_SUCCESS, call = CUBLAS_STATUS_SUCCESS;
  std::string why;
};

void compare(const Case& c, const Matrix& d) {
  const std::vector<std::byte> host = d.host();
  const double tolerance = c.cd_type == CUDA_R_16BF ? 1.0 / 256 : 1e-6;
  for (std::uint64_t j = 0; j < c.n; ++j) {
    for (std::uint64_t i = 0; i < c.m; ++i) {
      double sum = 0;
      for (std::uint64_t l = 0; l < c.k; ++l) {
        const auto turned = [](cublasOperation_t op, std::uint64_t row, std::uint64_t column) {
          return static_cast<double>(op == CUBLAS_OP_N ? input(row, column) : input(column, row));
        };
        sum += turned(c.op_a, i, l) * turned(c.op_b, l, j);
      }
      const double wanted = static_cast<double>(c.alpha) * sum + static_cast<double>(c.beta * input(i, j)) +
                            (c.has_bias ? static_cast<double>(input(i, 0)) : 0.0);
      const double got = static_cast<double>(get(host, d.index(i, j), c.cd_type));
      BOOST_TEST(std::abs(got - wanted) <= tolerance * (1 + std::abs(wanted)), "(" << i << ", " << j << ")");
    }
    for (std::int64_t i = static_cast<std::int64_t>(c.m); i < d.leading_dim; ++i) {
      const std::size_t begin = d.index(static_cast<std::uint64_t>(i), j) * size_of(c.cd_type);
      for (std::size_t byte = begin; byte < begin + size_of(c.cd_type) && byte < host.size(); ++byte) {
        BOOST_TEST((host[byte] == std::byte{0xff}), "between columns");
      }
    }
  }
}

Outcome run(const Case& c) {
  cublasLtHandle_t handle = nullptr;
  BOOST_REQUIRE(cublasLtCreate(&handle) == CUBLAS_STATUS_SUCCESS);
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  Matrix a(c.op_a == CUBLAS_OP_N ? c.m : c.k, c.op_a == CUBLAS_OP_N ? c.k : c.m, c.padding, c.ab_type);
  Matrix b(c.op_b == CUBLAS_OP_N ? c.k : c.n, c.op_b == CUBLAS_OP_N ? c.n : c.k, c.padding, c.ab_type);
  Matrix d(c.m, c.n, c.padding, c.cd_type), bias(c.m, 1, 0, c.bias_type);
  a.fill(input), b.fill(input), bias.fill(input);
  if (c.beta != 0.0f) d.fill(input);  // else it holds NaN, which must not be read
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatmulDescCreate(&desc, c.compute_type, CUDA_R_32F);
  set(desc, CUBLASLT_MATMUL_DESC_TRANSA, c.op_a);
  set(desc, CUBLASLT_MATMUL_DESC_TRANSB, c.op_b);
  if (c.has_bias) {
    set(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS);
    set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias.block.data()));
    set(desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, static_cast<std::int32_t>(c.bias_type));
  }
  cublasLtMatmulPreference_t preference = nullptr;
  cublasLtMatmulPreferenceCreate(&preference);
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t name, auto value) {
    BOOST_REQUIRE(cublasLtMatmulPreferenceSetAttribute(preference, name, &value, sizeof value) ==
                  CUBLAS_STATUS_SUCCESS);
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, c.max_workspace_bytes);
  for (const auto name : {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
                          CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    prefer(name, c.alignment_bytes);
  }
  Outcome outcome;
  cublasLtMatmulHeuristicResult_t found{};
  int num_found = 0;
  // Algorithms differ in the workspace they want: where it is a wrong one on purpose, one is needed that wants some.
  const bool is_wrong_workspace = c.missing_workspace > 0 || c.shift_workspace > 0;
  for (int attempt = 0; attempt < 64 && (num_found == 0 || (is_wrong_workspace && found.workspaceSize == 0));
       ++attempt) {
    outcome.query = cublasLtMatmulAlgoGetHeuristic(handle, desc, a.layout, b.layout, d.layout, d.layout, preference, 1,
                                                   &found, &num_found);
    if (outcome.query != CUBLAS_STATUS_SUCCESS) break;
  }
  if (outcome.query == CUBLAS_STATUS_SUCCESS) {
    BOOST_TEST(num_found == 1);
    BOOST_TEST(found.workspaceSize <= c.max_workspace_bytes);
    const Block workspace(c.max_workspace_bytes + 512);
    std::vector<std::byte> host(1 << 16);
    if (c.has_bias && c.shift_bias > 0) {
      set(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, static_cast<const void*>(bias.block.data() + c.shift_bias));
    }
    if (c.change_m_after_query) {
      const std::uint64_t rows = c.m - 1;
      for (const Matrix* x : {&a, &d}) {
        cublasLtMatrixLayoutSetAttribute(x->layout, CUBLASLT_MATRIX_LAYOUT_ROWS, &rows, sizeof rows);
      }
    }
    if (c.destroy_layout) cublasLtMatrixLayoutDestroy(std::exchange(b.layout, nullptr));
    const void* a_data = c.use_host_memory ? host.data() : a.block.data() + c.shift_a;
    void* d_data = d.block.data() + c.shift_d;
    float alpha = c.alpha, beta = c.beta;
    outcome.call = cublasLtMatmul(handle, desc, &alpha, a_data, a.layout, b.block.data(), b.layout, &beta, d_data,
                                  d.layout, d_data, d.layout, &found.algo, workspace.data() + c.shift_workspace,
                                  found.workspaceSize - std::min(found.workspaceSize, c.missing_workspace), stream);
    alpha = beta = std::numeric_limits<float>::quiet_NaN();  // host scalars are read by the call
    outcome.why = sft::emulation::last_refusal();
    BOOST_TEST(cudaStreamSynchronize(stream) == cudaSuccess);
    if (outcome.call == CUBLAS_STATUS_SUCCESS) compare(c, d);
  }
  cublasLtMatmulPreferenceDestroy(preference);
  cublasLtMatmulDescDestroy(desc);
  cudaStreamDestroy(stream);
  BOOST_TEST(cublasLtDestroy(handle) == CUBLAS_STATUS_SUCCESS);
  BOOST_TEST(cublasLtDestroy(handle) == CUBLAS_STATUS_NOT_INITIALIZED);
  return outcome;
}

void expect_right(const Case& c) {
  const Outcome outcome = run(c);
  BOOST_TEST(outcome.query == CUBLAS_STATUS_SUCCESS);
  BOOST_TEST(outcome.call == CUBLAS_STATUS_SUCCESS, outcome.why);
}

/// The call, not the query, is refused with these words.
void expect_refusal(const Case& c, const std::string& words) {
  const Outcome outcome = run(c);
  BOOST_TEST(outcome.query == CUBLAS_STATUS_SUCCESS);
  BOOST_TEST(outcome.call == CUBLAS_STATUS_INVALID_VALUE, words);
  BOOST_TEST(outcome.why.find(words) != std::string::npos, outcome.why);
}

/// A product of column-major matrices that are nowhere: what is asked for an algorithm sees sizes alone.
struct Spans {
  std::uint64_t m = 4, n = 3, k = 5;
  std::int64_t a_stride = 4, b_stride = 5, d_stride = 4;
};

cublasStatus_t query_of(const Spans& spans) {
  cublasLtHandle_t handle = nullptr;
  cublasLtCreate(&handle);
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
  cublasLtMatrixLayout_t a = nullptr, b = nullptr, d = nullptr;
  cublasLtMatrixLayoutCreate(&a, CUDA_R_16BF, spans.m, spans.k, spans.a_stride);
  cublasLtMatrixLayoutCreate(&b, CUDA_R_16BF, spans.k, spans.n, spans.b_stride);
  cublasLtMatrixLayoutCreate(&d, CUDA_R_32F, spans.m, spans.n, spans.d_stride);
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

}  // namespace

BOOST_AUTO_TEST_CASE(products_of_all_types_and_transpositions) {
  for (const cublasOperation_t op_a : {CUBLAS_OP_N, CUBLAS_OP_T}) {
    for (const cublasOperation_t op_b : {CUBLAS_OP_N, CUBLAS_OP_T}) {
      for (const float beta : {0.0f, 1.0f}) {
        Case c{.op_a = op_a, .op_b = op_b, .beta = beta};
        expect_right(c);
        c.ab_type = CUDA_R_16BF;
        expect_right(c);
        c.cd_type = CUDA_R_16BF;
        expect_right(c);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_bias_has_the_type_of_the_result) {
  Case c{.has_bias = true};
  expect_right(c);
  c.ab_type = CUDA_R_16BF;
  expect_right(c);
  c.bias_type = CUDA_R_16BF;
  BOOST_TEST(run(c).query == CUBLAS_STATUS_NOT_SUPPORTED);
  c.cd_type = CUDA_R_16BF;
  expect_right(c);
}

BOOST_AUTO_TEST_CASE(tf32_rounds_its_inputs) {
  // 1 + 2^-12 is 1 in TF32.
  const float x = 1.0f + std::ldexp(1.0f, -12), alpha = 1.0f, beta = 0.0f;
  for (const auto& [type, wanted] : {std::pair{CUBLAS_COMPUTE_32F, x}, {CUBLAS_COMPUTE_32F_FAST_TF32, 1.0f}}) {
    const Block a(256), b(256), d(256);
    const float one = 1.0f;
    cudaMemcpy(a.data(), &x, 4, cudaMemcpyHostToDevice);
    cudaMemcpy(b.data(), &one, 4, cudaMemcpyHostToDevice);
    cublasLtHandle_t handle = nullptr;
    cublasLtCreate(&handle);
    cublasLtMatmulDesc_t desc = nullptr;
    cublasLtMatmulDescCreate(&desc, type, CUDA_R_32F);
    cublasLtMatrixLayout_t layout = nullptr;
    cublasLtMatrixLayoutCreate(&layout, CUDA_R_32F, 1, 1, 1);
    BOOST_TEST(cublasLtMatmul(handle, desc, &alpha, a.data(), layout, b.data(), layout, &beta, d.data(), layout,
                              d.data(), layout, nullptr, nullptr, 0, nullptr) == CUBLAS_STATUS_SUCCESS);
    float got = 0;
    cudaMemcpy(&got, d.data(), 4, cudaMemcpyDeviceToHost);
    BOOST_TEST(got == wanted);
    cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(desc);
    cublasLtDestroy(handle);
  }
}

BOOST_AUTO_TEST_CASE(queries_for_what_the_library_does_not_have_are_refused) {
  const auto query = [](const Case& c) { return run(c).query; };
  BOOST_TEST(query({.cd_type = CUDA_R_16BF}) == CUBLAS_STATUS_NOT_SUPPORTED);
  BOOST_TEST(query({.ab_type = CUDA_R_16BF, .compute_type = CUBLAS_COMPUTE_32F_FAST_TF32}) ==
             CUBLAS_STATUS_NOT_SUPPORTED);
  BOOST_TEST(query({.compute_type = CUBLAS_COMPUTE_64F}) == CUBLAS_STATUS_NOT_SUPPORTED);
  BOOST_TEST(query({.padding = -1}) == CUBLAS_STATUS_INVALID_VALUE);
  BOOST_TEST(query({.m = 65'535 * 32 + 1, .n = 1, .k = 1, .padding = 0}) == CUBLAS_STATUS_NOT_SUPPORTED);
  BOOST_TEST(query({.alignment_bytes = 2}) == CUBLAS_STATUS_NOT_SUPPORTED);
  BOOST_TEST(query({.ab_type = CUDA_R_16BF, .cd_type = CUDA_R_16BF, .alignment_bytes = 2}) == CUBLAS_STATUS_SUCCESS);
}

BOOST_AUTO_TEST_CASE(queries_for_a_matrix_that_spans_more_than_31_bits_count_are_refused) {
  BOOST_TEST(query_of({}) == CUBLAS_STATUS_SUCCESS);
  // From the first element to the last, with what lies between columns: 2^31 - 1 elements, and 2^31.
  constexpr std::int64_t half = std::int64_t{1} << 30;
  for (const auto& [rest, status] :
       {std::pair{std::int64_t{1}, CUBLAS_STATUS_SUCCESS}, {std::int64_t{0}, CUBLAS_STATUS_NOT_SUPPORTED}}) {
    const std::int64_t span = 2 * half - rest;
    BOOST_TEST(query_of({.m = 1, .k = 2, .a_stride = span - 1, .b_stride = 2}) == status);
    BOOST_TEST(query_of({.n = 2, .k = 1, .b_stride = span - 1}) == status);
    BOOST_TEST(query_of({.m = 1, .n = 2, .a_stride = 1, .d_stride = span - 1}) == status);
  }
  // Without gaps.
  BOOST_TEST(
      query_of({.m = 1 << 15, .k = (1 << 16) - 1, .a_stride = 1 << 15, .b_stride = 1 << 16, .d_stride = 1 << 15}) ==
      CUBLAS_STATUS_SUCCESS);
  BOOST_TEST(query_of({.m = 1 << 15, .k = 1 << 16, .a_stride = 1 << 15, .b_stride = 1 << 16, .d_stride = 1 << 15}) ==
             CUBLAS_STATUS_NOT_SUPPORTED);
}

BOOST_AUTO_TEST_CASE(calls_that_break_what_the_query_promised_are_refused) {
  expect_refusal({.shift_a = 8}, "A is not aligned to 16 bytes");
  expect_refusal({.shift_d = 4}, "D is not aligned to 16 bytes");
  expect_refusal({.has_bias = true, .shift_bias = 4}, "the bias is not aligned");
  expect_refusal({.alignment_bytes = 256, .shift_a = 16}, "A is not aligned to 256 bytes");
  expect_refusal({.missing_workspace = 1}, "of workspace, and got");
  expect_refusal({.max_workspace_bytes = 4096, .shift_workspace = 16}, "the workspace is not aligned to 256 bytes");
  expect_refusal({.use_host_memory = true}, "is not in one piece of the device's memory");
  expect_refusal({.destroy_layout = true}, "no descriptor");
  expect_refusal({.change_m_after_query = true}, "chosen for another product");
  expect_right({.alignment_bytes = 4, .shift_a = 0});
}
