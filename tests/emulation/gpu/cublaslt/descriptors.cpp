// SPDX-License-Identifier: Apache-2.0
// Functions that make, change, ask and destroy descriptors.

#include "descriptors.hpp"

#include <cstddef>
#include <cstring>
#include <new>

using namespace sft::emulation;

namespace {

/// Where an attribute lies; no bytes: there is none of this number here.
struct Attribute {
  void* place = nullptr;
  std::size_t bytes = 0;
};
template <class T>
Attribute attribute(T& member) {
  return {&member, sizeof member};
}

Attribute find(Layout& layout, cublasLtMatrixLayoutAttribute_t name) {
  switch (name) {
    case CUBLASLT_MATRIX_LAYOUT_TYPE:
      return attribute(layout.type);
    case CUBLASLT_MATRIX_LAYOUT_ORDER:
      return attribute(layout.order);
    case CUBLASLT_MATRIX_LAYOUT_ROWS:
      return attribute(layout.rows);
    case CUBLASLT_MATRIX_LAYOUT_COLS:
      return attribute(layout.columns);
    case CUBLASLT_MATRIX_LAYOUT_LD:
      return attribute(layout.leading_dim);
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT:
      return attribute(layout.batch_count);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET:
      return attribute(layout.batch_stride);
    default:
      return {};
  }
}

Attribute find(MatmulDesc& desc, cublasLtMatmulDescAttributes_t name) {
  switch (name) {
    case CUBLASLT_MATMUL_DESC_COMPUTE_TYPE:
      return attribute(desc.compute_type);
    case CUBLASLT_MATMUL_DESC_SCALE_TYPE:
      return attribute(desc.scale_type);
    case CUBLASLT_MATMUL_DESC_POINTER_MODE:
      return attribute(desc.pointer_mode);
    case CUBLASLT_MATMUL_DESC_TRANSA:
      return attribute(desc.transpose_a);
    case CUBLASLT_MATMUL_DESC_TRANSB:
      return attribute(desc.transpose_b);
    case CUBLASLT_MATMUL_DESC_TRANSC:
      return attribute(desc.transpose_c);
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      return attribute(desc.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER:
      return attribute(desc.bias);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE:
      return attribute(desc.bias_type);
    case CUBLASLT_MATMUL_DESC_SM_COUNT_TARGET:
      return attribute(desc.sm_count_target);
    case CUBLASLT_MATMUL_DESC_A_SCALE_POINTER:
      return attribute(desc.a_scale);
    case CUBLASLT_MATMUL_DESC_B_SCALE_POINTER:
      return attribute(desc.b_scale);
    case CUBLASLT_MATMUL_DESC_A_SCALE_MODE:
      return attribute(desc.a_scale_mode);
    case CUBLASLT_MATMUL_DESC_B_SCALE_MODE:
      return attribute(desc.b_scale_mode);
    case CUBLASLT_MATMUL_DESC_FAST_ACCUM:
      return attribute(desc.fast_accumulation);
    default:
      return {};
  }
}

Attribute find(Preference& preference, cublasLtMatmulPreferenceAttributes_t name) {
  switch (name) {
    case CUBLASLT_MATMUL_PREF_SEARCH_MODE:
      return attribute(preference.search_mode);
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES:
      return attribute(preference.max_workspace_bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK:
      return attribute(preference.reduction_scheme_mask);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES:
      return attribute(preference.min_alignment_bytes[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES:
      return attribute(preference.min_alignment_bytes[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES:
      return attribute(preference.min_alignment_bytes[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES:
      return attribute(preference.min_alignment_bytes[3]);
    case CUBLASLT_MATMUL_PREF_IMPL_MASK:
      return attribute(preference.implementation_mask);
    default:
      return {};
  }
}

/// As the real library: the size has to be the attribute's own.
template <class T, class Opaque, class Name>
cublasStatus_t set(Opaque* opaque, Name name, const void* value, std::size_t bytes) {
  T* descriptor = inside<T>(opaque);
  if (descriptor == nullptr || value == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  const Attribute found = find(*descriptor, name);
  if (found.bytes == 0 || found.bytes != bytes) return CUBLAS_STATUS_INVALID_VALUE;
  std::memcpy(found.place, value, bytes);
  return CUBLAS_STATUS_SUCCESS;
}

/// With no bytes it asks for the size.
template <class T, class Opaque, class Name>
cublasStatus_t get(Opaque* opaque, Name name, void* value, std::size_t bytes, std::size_t* written) {
  T* descriptor = inside<T>(opaque);
  const Attribute found = descriptor != nullptr ? find(*descriptor, name) : Attribute{};
  const bool asks_for_size = bytes == 0 && written != nullptr;
  if (found.bytes == 0 || (!asks_for_size && (value == nullptr || bytes != found.bytes))) {
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (!asks_for_size) std::memcpy(value, found.place, bytes);
  if (written != nullptr) *written = found.bytes;
  return CUBLAS_STATUS_SUCCESS;
}

/// Puts `value` into memory of the caller's, which has `bytes`.
template <class T, class Opaque>
cublasStatus_t init(Opaque* opaque, std::size_t bytes, const T& value) {
  if (opaque == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  if (bytes < sizeof *opaque) return CUBLAS_STATUS_ALLOC_FAILED;
  std::memset(opaque, 0, sizeof *opaque);
  ::new (opaque) T(value);
  return CUBLAS_STATUS_SUCCESS;
}

template <class T, class Opaque>
cublasStatus_t create(Opaque** opaque, const T& value) {
  if (opaque == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  *opaque = new Opaque;
  return init(*opaque, sizeof **opaque, value);
}

/// A descriptor that is none is refused; destroying the same twice is found where its memory was not used again.
template <class T, class Opaque>
cublasStatus_t destroy(Opaque* opaque) {
  T* descriptor = inside<T>(opaque);
  if (descriptor == nullptr) return CUBLAS_STATUS_INVALID_VALUE;
  descriptor->tag = Tag{};
  delete opaque;
  return CUBLAS_STATUS_SUCCESS;
}

Layout layout_of(cudaDataType type, std::uint64_t rows, std::uint64_t columns, std::int64_t leading_dim) {
  return {.type = static_cast<std::uint32_t>(type), .rows = rows, .columns = columns, .leading_dim = leading_dim};
}

MatmulDesc desc_of(cublasComputeType_t compute_type, cudaDataType_t scale_type) {
  return {.compute_type = compute_type, .scale_type = scale_type};
}

}  // namespace

cublasStatus_t cublasLtMatrixLayoutInit_internal(cublasLtMatrixLayout_t layout, size_t size, cudaDataType type,
                                                 uint64_t rows, uint64_t columns, int64_t leading_dim) {
  return init(layout, size, layout_of(type, rows, columns, leading_dim));
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* layout, cudaDataType type, uint64_t rows,
                                          uint64_t columns, int64_t leading_dim) {
  return create(layout, layout_of(type, rows, columns, leading_dim));
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t layout) { return destroy<Layout>(layout); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name,
                                                const void* value, size_t bytes) {
  return set<Layout>(layout, name, value, bytes);
}
cublasStatus_t cublasLtMatrixLayoutGetAttribute(cublasLtMatrixLayout_t layout, cublasLtMatrixLayoutAttribute_t name,
                                                void* value, size_t bytes, size_t* written) {
  return get<Layout>(layout, name, value, bytes, written);
}

cublasStatus_t cublasLtMatmulDescInit_internal(cublasLtMatmulDesc_t desc, size_t size, cublasComputeType_t compute_type,
                                               cudaDataType_t scale_type) {
  return init(desc, size, desc_of(compute_type, scale_type));
}
cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* desc, cublasComputeType_t compute_type,
                                        cudaDataType_t scale_type) {
  return create(desc, desc_of(compute_type, scale_type));
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t desc) { return destroy<MatmulDesc>(desc); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name,
                                              const void* value, size_t bytes) {
  return set<MatmulDesc>(desc, name, value, bytes);
}
cublasStatus_t cublasLtMatmulDescGetAttribute(cublasLtMatmulDesc_t desc, cublasLtMatmulDescAttributes_t name,
                                              void* value, size_t bytes, size_t* written) {
  return get<MatmulDesc>(desc, name, value, bytes, written);
}

cublasStatus_t cublasLtMatmulPreferenceInit_internal(cublasLtMatmulPreference_t preference, size_t size) {
  return init(preference, size, Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* preference) {
  return create(preference, Preference{});
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t preference) {
  return destroy<Preference>(preference);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name, const void* value,
                                                    size_t bytes) {
  return set<Preference>(preference, name, value, bytes);
}
cublasStatus_t cublasLtMatmulPreferenceGetAttribute(cublasLtMatmulPreference_t preference,
                                                    cublasLtMatmulPreferenceAttributes_t name, void* value,
                                                    size_t bytes, size_t* written) {
  return get<Preference>(preference, name, value, bytes, written);
}
