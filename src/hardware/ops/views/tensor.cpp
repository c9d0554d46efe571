// SPDX-License-Identifier: Apache-2.0
#include "ops/views/tensor.hpp"

#include "sft/core/ensure.hpp"
#include "sft/ops/calls/rope.hpp"

namespace sft::ops {
namespace {

template <class T>
struct DTypeOf;
template <>
struct DTypeOf<float> {
  static constexpr DType value = DType::float32;
};
template <>
struct DTypeOf<double> {
  static constexpr DType value = DType::float64;
};
template <>
struct DTypeOf<std::int32_t> {
  static constexpr DType value = DType::int32;
};

template <class T, class Memory>
auto* elements_of(const BasicTensor<Memory>& x) {
  if (x.data != nullptr) {
    SFT_ENSURE(x.dtype == DTypeOf<T>::value, "ops: this dtype expected");
    SFT_ENSURE(x.is_contiguous() || x.shape[0] <= 1, "ops: contiguous tensor expected");
  }
  return x.template as<T>();
}

}  // namespace

template <class Memory>
BasicView<Memory> view_of(const BasicTensor<Memory>& x) {
  if (x.data == nullptr) return {};
  SFT_ENSURE(x.dtype == DType::float32 || x.dtype == DType::bf16, "ops: float32 or bf16 expected");
  const std::int64_t columns = x.row_elements();
  return {x.data, x.dtype == DType::bf16, x.shape[0], columns, x.shape[0] > 1 ? x.stride0 : columns};
}
template View view_of(const Tensor& x);
template ConstView view_of(const ConstTensor& x);

template <class Memory>
BasicView<Memory> flat_view_of(const BasicTensor<Memory>& x) {
  SFT_ENSURE(x.is_contiguous() || x.shape[0] <= 1, "ops: contiguous tensor expected");
  BasicView<Memory> view = view_of(x);
  view.columns *= view.rows;
  view.rows = 1;
  view.stride = view.columns;
  return view;
}
template View flat_view_of(const Tensor& x);
template ConstView flat_view_of(const ConstTensor& x);

float* floats_of(const Tensor& x) { return elements_of<float>(x); }
const float* floats_of(const ConstTensor& x) { return elements_of<float>(x); }
double* doubles_of(const Tensor& x) { return elements_of<double>(x); }
const double* doubles_of(const ConstTensor& x) { return elements_of<double>(x); }
std::int32_t* int32s_of(const Tensor& x) { return elements_of<std::int32_t>(x); }
const std::int32_t* int32s_of(const ConstTensor& x) { return elements_of<std::int32_t>(x); }

ViewPair pair_of(const Tensor& to, const ConstTensor& from) {
  SFT_ENSURE(to.num_elements() == from.num_elements(), "ops: shapes fit");
  if (to.is_contiguous() && from.is_contiguous()) return {flat_view_of(to), flat_view_of(from)};
  return {view_of(to), view_of(from)};
}

void ensure(bool holds, const char* what) {
  if (!holds) SFT_ENSURE(false, what);
}

void ensure_head_dim(const ConstTensor& x) {
  SFT_ENSURE(x.ndim == 3 && x.shape[2] <= max_head_dim && x.shape[2] % 2 == 0, "ops: head_dim must be even and <= 256");
}

}  // namespace sft::ops
