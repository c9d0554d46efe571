// SPDX-License-Identifier: Apache-2.0
#pragma once
// A product as the descriptors tell it, and what cuBLASLt asks of it.

#include <cublasLt.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "descriptors.hpp"

namespace sft::emulation {

/// D = alpha op(A) op(B) + beta C [+ bias], without pointers to data but the bias's.
struct Problem {
  MatmulDesc desc;
  Layout a, b, c, d;

  /// Rows and columns of D, and the length of the sums.
  [[nodiscard]] std::uint64_t m() const { return d.rows; }
  [[nodiscard]] std::uint64_t n() const { return d.columns; }
  [[nodiscard]] std::uint64_t k() const { return desc.transpose_a == CUBLAS_OP_N ? a.columns : a.rows; }
  [[nodiscard]] bool is_fp8() const;
  [[nodiscard]] bool has_bias() const { return desc.epilogue == CUBLASLT_EPILOGUE_BIAS; }
  [[nodiscard]] cudaDataType bias_type() const;
  /// Of all that an algorithm was chosen for.
  [[nodiscard]] std::uint64_t hash() const;
};

/// Bytes of an element of a real floating-point type that is emulated; 0 for others.
[[nodiscard]] std::size_t size_of(std::uint32_t type);
[[nodiscard]] bool is_fp8(std::uint32_t type);
/// How the scales of an operand of 8-bit floats lie, whose columns are `lines` of k terms each.
struct ScaleLayout {
  std::uint64_t count;                   ///< floats in all
  std::uint64_t line_step, term_step;    ///< from those of a line, or a tile of lines, to the next; of a tile of terms
  std::uint64_t tile_lines, tile_terms;  ///< that share a scale
};
[[nodiscard]] ScaleLayout scale_layout(std::int32_t mode, std::uint64_t lines, std::uint64_t k);
/// Bytes from the first to the last element.
[[nodiscard]] std::size_t extent_bytes(const Layout& layout);
/// The largest power of two that divides the address, at most `most`.
[[nodiscard]] std::uint32_t alignment_of(const void* address, std::uint32_t most);

/// What the documentation of cublasLtMatmul rules out whatever the data: the result says why. Success: it may run.
struct Verdict {
  cublasStatus_t status = CUBLAS_STATUS_SUCCESS;
  std::string why = {};
};
[[nodiscard]] Verdict judge(const Problem& problem);

}  // namespace sft::emulation
