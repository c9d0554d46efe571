// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the emulated cuBLASLt keeps in the opaque descriptors of the real one.

#include <cublasLt.h>

#include <cstdint>

namespace sft::emulation {

/// The first word of a descriptor that was made, but not destroyed.
enum class Tag : std::uint32_t {
  layout = 0x4c61796fu,
  matmul = 0x4d61746du,
  preference = 0x50726566u,
  algo = 0x416c676fu
};

struct Layout {
  static constexpr Tag tag_value = Tag::layout;
  Tag tag = tag_value;
  std::uint32_t type;
  std::uint64_t rows, columns;
  std::int64_t leading_dim;
  std::int32_t order = CUBLASLT_ORDER_COL;
  std::int32_t batch_count = 1;
  std::int64_t batch_stride = 0;

  [[nodiscard]] bool operator==(const Layout&) const = default;
};

struct MatmulDesc {
  static constexpr Tag tag_value = Tag::matmul;
  Tag tag = tag_value;
  std::int32_t compute_type, scale_type;
  std::int32_t pointer_mode = CUBLASLT_POINTER_MODE_HOST;
  std::int32_t transpose_a = CUBLAS_OP_N, transpose_b = CUBLAS_OP_N, transpose_c = CUBLAS_OP_N;
  std::uint32_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  std::int32_t bias_type = -1;  ///< that of D
  std::int32_t sm_count_target = 0;
  const void *a_scale = nullptr, *b_scale = nullptr;
  std::int32_t a_scale_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F,
               b_scale_mode = CUBLASLT_MATMUL_MATRIX_SCALE_SCALAR_32F;
  std::int8_t fast_accumulation = 0;
};

struct Preference {
  static constexpr Tag tag_value = Tag::preference;
  Tag tag = tag_value;
  std::uint32_t search_mode = CUBLASLT_SEARCH_BEST_FIT;
  std::uint64_t max_workspace_bytes = 0;
  std::uint32_t reduction_scheme_mask = CUBLASLT_REDUCTION_SCHEME_MASK;
  std::uint32_t min_alignment_bytes[4] = {256, 256, 256, 256};  ///< of A, B, C, D
  std::uint64_t implementation_mask = ~std::uint64_t{0};
};

/// What a heuristic query was for, and what its answer needs.
struct Algo {
  static constexpr Tag tag_value = Tag::algo;
  Tag tag = tag_value;
  std::uint32_t bias_alignment_bytes;
  std::uint64_t problem;  ///< hash of all that may not differ when the product runs
  std::uint64_t workspace_bytes;
  std::uint32_t alignment_bytes[4];  ///< of A, B, C, D
  std::uint32_t delay_us;            ///< that it takes longer
};

static_assert(sizeof(Layout) <= sizeof(cublasLtMatrixLayoutOpaque_t));
static_assert(sizeof(MatmulDesc) <= sizeof(cublasLtMatmulDescOpaque_t));
static_assert(sizeof(Preference) <= sizeof(cublasLtMatmulPreferenceOpaque_t));
static_assert(sizeof(Algo) <= sizeof(cublasLtMatmulAlgo_t));

/// The inside of a descriptor; null for a null pointer, and for one that was not made or is destroyed.
template <class T, class Opaque>
[[nodiscard]] T* inside(Opaque* opaque) {
  auto* value = reinterpret_cast<T*>(opaque);
  return value != nullptr && value->tag == T::tag_value ? value : nullptr;
}
template <class T, class Opaque>
[[nodiscard]] const T* inside(const Opaque* opaque) {
  const auto* value = reinterpret_cast<const T*>(opaque);
  return value != nullptr && value->tag == T::tag_value ? value : nullptr;
}

}  // namespace sft::emulation
