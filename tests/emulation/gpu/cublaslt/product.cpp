// SPDX-License-Identifier: Apache-2.0
#include "product.hpp"

#include <cuda_bf16.h>
#include <chrono>
#include <thread>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <vector>

#include "runtime/stream_queue.hpp"

namespace sft::emulation {

namespace {

/// The number of a code of 8-bit floats.
double number_of(unsigned code, std::uint32_t type) {
  const bool is_e5m2 = type == CUDA_R_8F_E5M2;
  const int mantissa_bits = is_e5m2 ? 2 : 3, bias = is_e5m2 ? 15 : 7, one = 1 << mantissa_bits;
  const int size = static_cast<int>(code & 0x7fU), exponent = size >> mantissa_bits;
  const double sign = code >= 0x80U ? -1.0 : 1.0;
  if (size > (is_e5m2 ? 0x7c : 0x7e)) return std::numeric_limits<double>::quiet_NaN();
  if (is_e5m2 && size == 0x7c) return sign * std::numeric_limits<double>::infinity();
  const int digits = size % one + (exponent == 0 ? 0 : one);
  return sign * std::ldexp(digits, (exponent == 0 ? 1 : exponent) - bias - mantissa_bits);
}

/// A matrix of any layout, element by element.
class Matrix {
 public:
  Matrix(const Layout& layout, const void* data) : layout_(layout), data_(static_cast<const std::byte*>(data)) {}

  [[nodiscard]] std::size_t offset_bytes(std::uint64_t row, std::uint64_t column) const {
    const auto stride = static_cast<std::uint64_t>(layout_.leading_dim);
    const std::uint64_t index = layout_.order == CUBLASLT_ORDER_COL ? column * stride + row : row * stride + column;
    return index * size_of(layout_.type);
  }
  template <class T>
  [[nodiscard]] T get(std::uint64_t row, std::uint64_t column) const {
    const std::byte* place = data_ + offset_bytes(row, column);
    if (layout_.type == CUDA_R_16BF) {
      __nv_bfloat16 value;
      std::memcpy(&value, place, sizeof value);
      return static_cast<T>(__bfloat162float(value));
    }
    if (layout_.type == CUDA_R_64F) return static_cast<T>(*reinterpret_cast<const double*>(place));
    if (is_fp8(layout_.type)) return static_cast<T>(number_of(std::to_integer<unsigned>(*place), layout_.type));
    return static_cast<T>(*reinterpret_cast<const float*>(place));
  }
  /// The runs of memory that hold elements.
  template <class Visit>
  void for_each_run(const Visit& visit) const {
    const bool is_column_major = layout_.order == CUBLASLT_ORDER_COL;
    const std::uint64_t inner = is_column_major ? layout_.rows : layout_.columns;
    const std::uint64_t outer = is_column_major ? layout_.columns : layout_.rows;
    for (std::uint64_t i = 0; i < outer; ++i) {
      visit(data_ + i * static_cast<std::uint64_t>(layout_.leading_dim) * size_of(layout_.type),
            inner * size_of(layout_.type));
    }
  }

 private:
  const Layout& layout_;
  const std::byte* data_;
};

/// The float32 number as the tensor cores read it in TF32: 10 bits of mantissa, to the nearest.
float to_tf32(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits + 0xfffu + ((bits >> 13) & 1u)) & ~0x1fffu);
}

template <class T>
T rounded_input(T value, int compute_type) {
  if constexpr (std::is_same_v<T, float>) {
    if (compute_type == CUBLAS_COMPUTE_32F_FAST_TF32) return to_tf32(value);
  }
  return value;
}

/// op(x), row-major (rows, columns), in the compute type.
template <class T>
std::vector<T> unpack(const Matrix& x, bool transpose, std::uint64_t rows, std::uint64_t columns, int compute_type) {
  std::vector<T> values(rows * columns);
  for (std::uint64_t row = 0; row < rows; ++row) {
    for (std::uint64_t column = 0; column < columns; ++column) {
      const T value = transpose ? x.get<T>(column, row) : x.get<T>(row, column);
      values[row * columns + column] = rounded_input(value, compute_type);
    }
  }
  return values;
}

/// sums (m, n) = a (m, k) b (k, n), the terms of each in order.
template <class T>
std::vector<T> multiply(const std::vector<T>& a, const std::vector<T>& b, std::uint64_t m, std::uint64_t n,
                        std::uint64_t k) {
  std::vector<T> sums(m * n);
  for (std::uint64_t row = 0; row < m; ++row) {
    T* to = sums.data() + row * n;
    for (std::uint64_t i = 0; i < k; ++i) {
      const T factor = a[row * k + i];
      const T* from = b.data() + i * n;
      for (std::uint64_t column = 0; column < n; ++column) to[column] += factor * from[column];
    }
  }
  return sums;
}

/// Sums of 8-bit floats, both of which lie with their terms behind one another: those of each 128 terms times the
/// scales of their tiles.
std::vector<float> multiply_fp8(const Product& product, const std::vector<float>& a, const std::vector<float>& b) {
  const Problem& problem = product.problem;
  const std::uint64_t m = problem.m(), n = problem.n(), k = problem.k();
  const ScaleLayout of_a = scale_layout(problem.desc.a_scale_mode, m, k),
                    of_b = scale_layout(problem.desc.b_scale_mode, n, k);
  constexpr float one = 1.0F;
  const auto* a_scales = problem.desc.a_scale != nullptr ? static_cast<const float*>(problem.desc.a_scale) : &one;
  const auto* b_scales = problem.desc.b_scale != nullptr ? static_cast<const float*>(problem.desc.b_scale) : &one;
  if (a_scales != &one) note_read(a_scales, of_a.count * sizeof(float));
  if (b_scales != &one) note_read(b_scales, of_b.count * sizeof(float));
  const auto scale = [](const float* scales, const ScaleLayout& of, std::uint64_t line, std::uint64_t term) {
    return scales[line / of.tile_lines * of.line_step + term / of.tile_terms * of.term_step];
  };
  const std::uint64_t step = std::min(of_a.tile_terms, of_b.tile_terms);
  std::vector<float> sums(m * n);
  for (std::uint64_t row = 0; row < m; ++row) {
    for (std::uint64_t column = 0; column < n; ++column) {
      float sum = 0;
      for (std::uint64_t begin = 0; begin < k; begin += step) {
        float part = 0;
        for (std::uint64_t i = begin; i < std::min(begin + step, k); ++i) part += a[row * k + i] * b[i * n + column];
        sum += part * (scale(a_scales, of_a, row, begin) * scale(b_scales, of_b, column, begin));
      }
      sums[row * n + column] = sum;
    }
  }
  return sums;
}

double read_scalar(const void* scalar, std::int32_t type) {
  return type == CUDA_R_64F ? *static_cast<const double*>(scalar) : *static_cast<const float*>(scalar);
}

void put(std::byte* place, std::uint32_t type, double value) {
  if (type == CUDA_R_64F) {
    std::memcpy(place, &value, sizeof value);
  } else if (type == CUDA_R_32F) {
    const auto single = static_cast<float>(value);
    std::memcpy(place, &single, sizeof single);
  } else {
    const __nv_bfloat16 rounded = __float2bfloat16_rn(static_cast<float>(value));
    std::memcpy(place, &rounded, sizeof rounded);
  }
}

template <class T>
void run_as(const Product& product, T alpha, T beta) {
  const auto& [desc, a, b, c, d] = product.problem;
  const std::uint64_t m = product.problem.m(), n = product.problem.n(), k = product.problem.k();
  const auto note_reads = [](const Matrix& matrix) { matrix.for_each_run(note_read); };
  const Matrix a_matrix(a, product.a), b_matrix(b, product.b), c_matrix(c, product.c), d_matrix(d, product.d);
  note_reads(a_matrix);
  note_reads(b_matrix);
  const std::vector<T> a_numbers = unpack<T>(a_matrix, desc.transpose_a != CUBLAS_OP_N, m, k, desc.compute_type),
                       b_numbers = unpack<T>(b_matrix, desc.transpose_b != CUBLAS_OP_N, k, n, desc.compute_type);
  std::vector<T> sums;
  if constexpr (std::is_same_v<T, float>) {
    if (product.problem.is_fp8()) sums = multiply_fp8(product, a_numbers, b_numbers);
  }
  if (sums.empty()) sums = multiply(a_numbers, b_numbers, m, n, k);
  spoil_ends(product.workspace, product.workspace_bytes);
  if (beta != T{0}) note_reads(c_matrix);
  const Layout bias_layout{.type = static_cast<std::uint32_t>(product.problem.bias_type()),
                           .rows = m,
                           .columns = 1,
                           .leading_dim = static_cast<std::int64_t>(m)};
  const Matrix bias(bias_layout, desc.bias);
  if (product.problem.has_bias()) note_reads(bias);
  d_matrix.for_each_run(note_write);
  auto* to = static_cast<std::byte*>(product.d);
  for (std::uint64_t row = 0; row < m; ++row) {
    for (std::uint64_t column = 0; column < n; ++column) {
      T value = alpha * sums[row * n + column];
      if (beta != T{0}) value += beta * c_matrix.get<T>(row, column);
      if (product.problem.has_bias()) value += bias.get<T>(row, 0);
      put(to + d_matrix.offset_bytes(row, column), d.type, value);
    }
  }
}

}  // namespace

void spoil_ends(void* workspace, std::size_t bytes) {
  const std::size_t end_bytes = std::min<std::size_t>(bytes, 1024);
  if (end_bytes == 0) return;
  auto* first = static_cast<std::byte*>(workspace);
  for (std::byte* begin : {first, first + bytes - end_bytes}) {
    note_write(begin, end_bytes);
    std::memset(begin, 0xff, end_bytes);
  }
}

void Product::read_host_scalars() {
  if (problem.desc.pointer_mode != CUBLASLT_POINTER_MODE_HOST) return;
  host_alpha = read_scalar(alpha, problem.desc.scale_type);
  host_beta = read_scalar(beta, problem.desc.scale_type);
}

void Product::run() const {
  if (delay_us > 0) std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
  const bool is_on_device = problem.desc.pointer_mode == CUBLASLT_POINTER_MODE_DEVICE;
  const std::size_t scalar_bytes = size_of(static_cast<std::uint32_t>(problem.desc.scale_type));
  if (is_on_device) {
    note_read(alpha, scalar_bytes);
    note_read(beta, scalar_bytes);
  }
  const double by = is_on_device ? read_scalar(alpha, problem.desc.scale_type) : host_alpha;
  const double keep = is_on_device ? read_scalar(beta, problem.desc.scale_type) : host_beta;
  if (problem.desc.compute_type == CUBLAS_COMPUTE_64F) {
    run_as<double>(*this, by, keep);
  } else {
    run_as<float>(*this, static_cast<float>(by), static_cast<float>(keep));
  }
}

}  // namespace sft::emulation
