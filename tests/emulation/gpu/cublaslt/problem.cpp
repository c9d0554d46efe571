// SPDX-License-Identifier: Apache-2.0
#include "problem.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <limits>

#include "runtime/device_properties.hpp"

namespace sft::emulation {

namespace {

/// A line of the table of supported types in cuBLAS's documentation of cublasLtMatmul, for matrices that are regular,
/// column- or row-major, and real.
struct Supported {
  int compute_type, scale_type, ab_type, cd_type, bias_type;
};
constexpr std::array table{
    Supported{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF},
    Supported{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_16BF, CUDA_R_32F, CUDA_R_32F},
    Supported{CUBLAS_COMPUTE_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
    Supported{CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_16BF, CUDA_R_16BF, CUDA_R_16BF},
    Supported{CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_16BF, CUDA_R_32F, CUDA_R_32F},
    Supported{CUBLAS_COMPUTE_32F_PEDANTIC, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
    Supported{CUBLAS_COMPUTE_32F_FAST_TF32, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F, CUDA_R_32F},
    Supported{CUBLAS_COMPUTE_64F, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F, CUDA_R_64F},
};

Verdict invalid(const std::string& why) { return {CUBLAS_STATUS_INVALID_VALUE, why}; }
Verdict unsupported(const std::string& why) { return {CUBLAS_STATUS_NOT_SUPPORTED, why}; }

/// Elements from the first to the last, gaps included.
std::uint64_t span_of(const Layout& layout) {
  const bool is_column_major = layout.order == CUBLASLT_ORDER_COL;
  const std::uint64_t inner = is_column_major ? layout.rows : layout.columns;
  const std::uint64_t outer = is_column_major ? layout.columns : layout.rows;
  return (outer - 1) * static_cast<std::uint64_t>(layout.leading_dim) + inner;
}

Verdict judge_layout(const Layout& layout, const std::string& name) {
  if (layout.rows == 0 || layout.columns == 0) return invalid(name + " is empty");
  constexpr std::uint64_t most = std::numeric_limits<std::int32_t>::max();
  if (layout.rows > most || layout.columns > most) return unsupported(name + " is larger than 32 bits count");
  if (layout.order != CUBLASLT_ORDER_COL && layout.order != CUBLASLT_ORDER_ROW) {
    return unsupported(name + " has an order that is not emulated");
  }
  if (layout.batch_count != 1) return unsupported("batches are not emulated");
  const std::uint64_t least = layout.order == CUBLASLT_ORDER_COL ? layout.rows : layout.columns;
  if (layout.leading_dim < 0 || static_cast<std::uint64_t>(layout.leading_dim) < least) {
    return invalid(name + " has a leading dimension of " + std::to_string(layout.leading_dim) + ", less than " +
                   std::to_string(least));
  }
  // The real library takes it and fails or gives wrong numbers.
  if (span_of(layout) > most) return unsupported(name + " spans 2^31 elements or more");
  return {};
}

/// The real library's grids count this many blocks of 32 rows or columns of D; beyond that its results are wrong.
Verdict judge_grid(const Layout& d) {
  constexpr std::uint64_t most = 65'535 * 32;
  if (d.rows > most || d.columns > most) return unsupported("D has more rows or columns than the grid counts");
  return {};
}

/// What "To use tensor- or block-scaled FP8 kernels" and the pages on scaling of cuBLAS's documentation ask for.
Verdict judge_fp8(const Problem& problem) {
  const auto& [desc, a, b, c, d] = problem;
  if (!is_fp8(a.type) || !is_fp8(b.type)) return unsupported("one operand alone is of 8-bit floats");
  if (a.type == CUDA_R_8F_E5M2 && b.type == CUDA_R_8F_E5M2) return unsupported("both operands are E5M2");
  if (desc.compute_type != CUBLAS_COMPUTE_32F || desc.scale_type != CUDA_R_32F) {
    return unsupported("8-bit floats are multiplied in float32");
  }
  if (c.type != d.type || (d.type != CUDA_R_16BF && d.type != CUDA_R_32F))
    return unsupported("C or D is of another type");
  if (problem.has_bias() && problem.bias_type() != CUDA_R_16BF) return unsupported("the bias is not of bf16");
  const int capability = compute_capability();
  if (capability < 89) return unsupported("this GPU has no products of 8-bit floats");
  if (desc.transpose_a != CUBLAS_OP_T || desc.transpose_b != CUBLAS_OP_N) return unsupported("the form is not TN");
  for (const Layout* layout : {&a, &b, &c, &d}) {
    if (layout->order != CUBLASLT_ORDER_COL) return unsupported("a matrix is row-major");
    if (static_cast<std::uint64_t>(layout->leading_dim) * size_of(layout->type) % 16 != 0) {
      return unsupported("a leading dimension is no multiple of 16 bytes");
    }
  }
  if (problem.k() % 16 != 0) return unsupported("the terms of a sum are no multiple of 16 bytes");
  if (problem.m() * size_of(d.type) % 16 != 0) return unsupported("the rows of D are no multiple of 16 bytes");
  const bool is_scalar = desc.a_scale_mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F &&
                         desc.b_scale_mode == CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  if (is_scalar) return {};
  const auto is_of_tiles = [](std::int32_t mode) {
    return mode == CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F || mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F;
  };
  if (!is_of_tiles(desc.a_scale_mode) || !is_of_tiles(desc.b_scale_mode)) {
    return unsupported("these scaling modes do not go together, or are not emulated");
  }
  if (desc.a_scale_mode == desc.b_scale_mode && desc.a_scale_mode == CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F) {
    return unsupported("both operands have scales of 128 x 128");
  }
  if (capability != 90) return unsupported("scales of 128 terms are those of compute capability 9.0");
  if (desc.fast_accumulation != 0) return unsupported("scales of 128 terms do not go with fast accumulation");
  if (problem.m() % 4 != 0 || problem.n() % 4 != 0)
    return unsupported("D has rows or columns that are no multiple of 4");
  return {};
}

Verdict judge_types(const Problem& problem) {
  if (problem.is_fp8()) return judge_fp8(problem);
  if (problem.desc.a_scale != nullptr || problem.desc.b_scale != nullptr) {
    return invalid("scales are for 8-bit floats alone");
  }
  const auto fits = [&](const Supported& line) {
    const auto is = [](std::uint32_t type, int wanted) { return static_cast<int>(type) == wanted; };
    return line.compute_type == problem.desc.compute_type && line.scale_type == problem.desc.scale_type &&
           is(problem.a.type, line.ab_type) && is(problem.b.type, line.ab_type) && is(problem.c.type, line.cd_type) &&
           is(problem.d.type, line.cd_type);
  };
  const auto line = std::ranges::find_if(table, fits);
  if (line == table.end()) return unsupported("these types are not in cublasLtMatmul's table");
  if (problem.has_bias() && problem.bias_type() != line->bias_type) {
    return unsupported("the bias has another type than cublasLtMatmul's table says");
  }
  return {};
}

Verdict judge_shapes(const Problem& problem) {
  const auto& [desc, a, b, c, d] = problem;
  const bool turned_b = desc.transpose_b != CUBLAS_OP_N;
  const std::uint64_t rows_of_a = desc.transpose_a != CUBLAS_OP_N ? a.columns : a.rows;
  const std::uint64_t rows_of_b = turned_b ? b.columns : b.rows, columns_of_b = turned_b ? b.rows : b.columns;
  if (rows_of_a != d.rows || columns_of_b != d.columns || rows_of_b != problem.k()) {
    return invalid("the shapes do not fit");
  }
  if (c.rows != d.rows || c.columns != d.columns || c.order != d.order) return invalid("C has another shape than D");
  return {};
}

}  // namespace

cudaDataType Problem::bias_type() const {
  if (is_fp8() && desc.bias_type < 0) return CUDA_R_16BF;
  return static_cast<cudaDataType>(desc.bias_type >= 0 ? desc.bias_type : static_cast<std::int32_t>(d.type));
}

bool Problem::is_fp8() const { return emulation::is_fp8(a.type) || emulation::is_fp8(b.type); }

bool is_fp8(std::uint32_t type) { return type == CUDA_R_8F_E4M3 || type == CUDA_R_8F_E5M2; }

ScaleLayout scale_layout(std::int32_t mode, std::uint64_t lines, std::uint64_t k) {
  constexpr std::uint64_t side = 128;
  const std::uint64_t term_tiles = (k + side - 1) / side, line_tiles = (lines + side - 1) / side;
  switch (mode) {
    case CUBLASLT_MATMUL_MATRIX_SCALE_VEC128_32F:
      return {term_tiles * lines, 1, lines, 1, side};
    case CUBLASLT_MATMUL_MATRIX_SCALE_BLK128x128_32F: {
      const std::uint64_t padded = (term_tiles + 3) / 4 * 4;
      return {padded * line_tiles, padded, 1, side, side};
    }
    default:
      return {1, 0, 0, lines, k};
  }
}

std::uint64_t Problem::hash() const {
  std::uint64_t hash = 0x9e3779b97f4a7c15u;
  const auto mix = [&](std::uint64_t value) {
    hash = (hash ^ value) * 0xff51afd7ed558ccdu;
    hash ^= hash >> 32;
  };
  for (const int part : {desc.compute_type, desc.scale_type, desc.pointer_mode, desc.transpose_a, desc.transpose_b,
                         static_cast<int>(desc.epilogue), static_cast<int>(bias_type()), desc.a_scale_mode,
                         desc.b_scale_mode, static_cast<int>(desc.fast_accumulation)}) {
    mix(static_cast<std::uint64_t>(part));
  }
  for (const Layout* layout : {&a, &b, &c, &d}) {
    mix(layout->type);
    mix(layout->rows);
    mix(layout->columns);
    mix(static_cast<std::uint64_t>(layout->leading_dim));
    mix(static_cast<std::uint64_t>(layout->order));
  }
  return hash;
}

std::size_t size_of(std::uint32_t type) {
  switch (type) {
    case CUDA_R_8F_E4M3:
    case CUDA_R_8F_E5M2:
      return 1;
    case CUDA_R_16BF:
      return 2;
    case CUDA_R_32F:
      return 4;
    case CUDA_R_64F:
      return 8;
    default:
      return 0;
  }
}

std::size_t extent_bytes(const Layout& layout) { return span_of(layout) * size_of(layout.type); }

std::uint32_t alignment_of(const void* address, std::uint32_t most) {
  const auto bits = reinterpret_cast<std::uintptr_t>(address);
  if (bits == 0) return most;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(most, std::uint64_t{1} << std::countr_zero(bits)));
}

Verdict judge(const Problem& problem) {
  const auto& [desc, a, b, c, d] = problem;
  for (const auto& [layout, name] : {std::pair{&a, "A"}, {&b, "B"}, {&c, "C"}, {&d, "D"}}) {
    if (Verdict verdict = judge_layout(*layout, name); verdict.status != CUBLAS_STATUS_SUCCESS) return verdict;
  }
  if (Verdict verdict = judge_grid(d); verdict.status != CUBLAS_STATUS_SUCCESS) return verdict;
  if (desc.transpose_c != CUBLAS_OP_N) return unsupported("C cannot be transposed");
  if (desc.pointer_mode != CUBLASLT_POINTER_MODE_HOST && desc.pointer_mode != CUBLASLT_POINTER_MODE_DEVICE) {
    return unsupported("vectors of alpha and beta are not emulated");
  }
  if (desc.epilogue != CUBLASLT_EPILOGUE_DEFAULT && desc.epilogue != CUBLASLT_EPILOGUE_BIAS) {
    return unsupported("this epilogue is not emulated");
  }
  // There is one entry for each row, and rows have to be the inner dim.
  if (problem.has_bias() && d.order != CUBLASLT_ORDER_COL) return unsupported("a bias needs D to be column-major");
  if (Verdict verdict = judge_types(problem); verdict.status != CUBLAS_STATUS_SUCCESS) return verdict;
  return judge_shapes(problem);
}

}  // namespace sft::emulation
