// SPDX-License-Identifier: Apache-2.0
#include "names.hpp"

#include <cuda_bf16.h>

#include <algorithm>
#include <cstdint>

namespace sft::emulation {

namespace {

template <class T>
T combine(T a, T b, ncclRedOp_t operation) {
  if (operation == ncclSum) return a + b;
  return operation == ncclMax ? std::max(a, b) : std::min(a, b);
}

__nv_bfloat16 combine(__nv_bfloat16 a, __nv_bfloat16 b, ncclRedOp_t operation) {
  return __float2bfloat16_rn(combine(__bfloat162float(a), __bfloat162float(b), operation));
}

template <class T>
void fold_as(void* into, const void* from, std::size_t count, ncclRedOp_t operation) {
  T* to = static_cast<T*>(into);
  const T* what = static_cast<const T*>(from);
  for (std::size_t i = 0; i < count; ++i) to[i] = combine(to[i], what[i], operation);
}

}  // namespace

const char* name_of(ncclDataType_t type) {
  static constexpr const char* names[] = {"ncclInt8",    "ncclUint8",    "ncclInt32",      "ncclUint32",
                                          "ncclInt64",   "ncclUint64",   "ncclFloat16",    "ncclFloat32",
                                          "ncclFloat64", "ncclBfloat16", "ncclFloat8e4m3", "ncclFloat8e5m2"};
  return type >= 0 && type < ncclNumTypes ? names[type] : "an unknown type";
}

const char* name_of(ncclRedOp_t operation) {
  static constexpr const char* names[] = {"ncclSum", "ncclProd", "ncclMax", "ncclMin", "ncclAvg"};
  return operation >= 0 && operation < ncclNumOps ? names[operation] : "an unknown operation";
}

std::size_t size_of(ncclDataType_t type) {
  static constexpr std::size_t sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return type >= 0 && type < ncclNumTypes ? sizes[type] : 0;
}

bool can_fold(ncclDataType_t type, ncclRedOp_t operation) {
  const bool has_type =
      type == ncclFloat32 || type == ncclFloat64 || type == ncclBfloat16 || type == ncclInt32 || type == ncclInt64;
  return has_type && (operation == ncclSum || operation == ncclMax || operation == ncclMin);
}

void fold(void* into, const void* from, std::size_t count, ncclDataType_t type, ncclRedOp_t operation) {
  switch (type) {
    case ncclFloat64:
      return fold_as<double>(into, from, count, operation);
    case ncclBfloat16:
      return fold_as<__nv_bfloat16>(into, from, count, operation);
    case ncclInt32:
      return fold_as<std::int32_t>(into, from, count, operation);
    case ncclInt64:
      return fold_as<std::int64_t>(into, from, count, operation);
    default:
      return fold_as<float>(into, from, count, operation);
  }
}

}  // namespace sft::emulation
