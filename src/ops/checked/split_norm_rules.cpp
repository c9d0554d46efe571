// SPDX-License-Identifier: Apache-2.0
#include "ops/checked/call.hpp"

namespace sft::ops::checked {

namespace {

/// x (T, N) and the weight of its columns; the dtype of x.
DType check_columns(Call& call, const ConstTensor& x, const NormWeight& weight) {
  call.require_dims("x", x, 2);
  const DType compute = compute_of(call, "x", x);
  call.in("x", x, shape_of(x), compute, Layout::strided);
  call.in("weight", weight.tensor, {x.shape[1]}, {compute, DType::float32});
  return compute;
}

void check_all_columns(const Call& call, std::int64_t all_columns, const ConstTensor& x) {
  call.require(all_columns >= x.shape[1], "all_columns is less than the columns of one rank");
}

}  // namespace

void check_split_norm_squares(const Tensor& squares, const ConstTensor& x) {
  Call call("split_norm_squares");
  call.require_dims("x", x, 2);
  call.in("x", x, shape_of(x), compute_of(call, "x", x), Layout::strided);
  call.out("squares", squares, {x.shape[0]}, DType::float32);
  call.check_memory();
}

void check_split_norm(const SplitNormForward& norm) {
  Call call("split_norm_forward");
  const DType compute = check_columns(call, norm.x, norm.weight);
  call.out("y", norm.y, shape_of(norm.x), compute, Layout::strided);
  call.out("rstd", norm.rstd, {norm.x.shape[0]}, DType::float32);
  call.in("squares", norm.squares, {norm.x.shape[0]}, DType::float32);
  check_all_columns(call, norm.all_columns, norm.x);
  call.check_memory();
}

void check_split_norm(const SplitNormDots& norm) {
  Call call("split_norm_dots");
  const DType compute = check_columns(call, norm.x, norm.weight);
  call.out("dots", norm.dots, {norm.x.shape[0]}, DType::float32);
  if (!norm.dweight.empty()) call.out("dweight", norm.dweight, {norm.x.shape[1]}, DType::float32);
  call.in("dy", norm.dy, shape_of(norm.x), compute, Layout::strided);
  call.in("rstd", norm.rstd, {norm.x.shape[0]}, DType::float32);
  call.check_memory();
}

void check_split_norm(const SplitNormBackward& norm) {
  Call call("split_norm_backward");
  const DType compute = check_columns(call, norm.x, norm.weight);
  call.out("dx", norm.dx, shape_of(norm.x), compute, Layout::strided);
  call.in("dy", norm.dy, shape_of(norm.x), compute, Layout::strided);
  call.in("rstd", norm.rstd, {norm.x.shape[0]}, DType::float32);
  call.in("dots", norm.dots, {norm.x.shape[0]}, DType::float32);
  check_all_columns(call, norm.all_columns, norm.x);
  call.may_be("dx", "dy");
  call.check_memory();
}

}  // namespace sft::ops::checked
