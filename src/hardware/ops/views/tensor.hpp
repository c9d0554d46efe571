// SPDX-License-Identifier: Apache-2.0
#pragma once
// Pointers and sizes of the tensors of an op, which kernels read. Memory is that of the backend. For every compiler and
// instruction set: these headers have no functions that are both inline and exported (ops/cpu/kernels.hpp).

#include <cstdint>

#include "ops/views/view.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

// Each function throws std::logic_error where the tensor has another dtype, or gaps where it may have none. Of a tensor
// without memory the pointers are null.

/// The first dim are the rows; all others, which are contiguous, the columns. float32 or bf16.
template <class Memory>
[[nodiscard]] BasicView<Memory> view_of(const BasicTensor<Memory>& x);
/// A contiguous tensor as one long row.
template <class Memory>
[[nodiscard]] BasicView<Memory> flat_view_of(const BasicTensor<Memory>& x);

// The elements of a contiguous tensor.
[[nodiscard]] float* floats_of(const Tensor& x);
[[nodiscard]] const float* floats_of(const ConstTensor& x);
[[nodiscard]] double* doubles_of(const Tensor& x);
[[nodiscard]] const double* doubles_of(const ConstTensor& x);
[[nodiscard]] std::int32_t* int32s_of(const Tensor& x);
[[nodiscard]] const std::int32_t* int32s_of(const ConstTensor& x);

struct ViewPair {
  View to;
  ConstView from;
};
/// Two tensors of as many elements: each as one long row, unless one of them has gaps.
[[nodiscard]] ViewPair pair_of(const Tensor& to, const ConstTensor& from);

/// Throws std::logic_error, with what must hold, unless it holds.
void ensure(bool holds, const char* what);

/// Throws std::logic_error unless x is (T, heads, head dim) with an even head dim of at most max_head_dim.
void ensure_head_dim(const ConstTensor& x);

}  // namespace sft::ops
