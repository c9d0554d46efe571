// SPDX-License-Identifier: Apache-2.0
#include "sft/tensor/tensor.hpp"

#include "sft/core/ensure.hpp"

namespace sft {

template <class Memory>
BasicTensor<Memory>::BasicTensor(Memory* data_in, DType dtype_in, std::initializer_list<std::int64_t> shape_in)
    : data(data_in), dtype(dtype_in), ndim(static_cast<int>(shape_in.size())) {
  SFT_ENSURE(ndim >= 1, "tensor of 1 to 4 dims");
  SFT_ENSURE(ndim <= max_ndim, "tensor of 1 to 4 dims");
  int i = 0;
  for (const std::int64_t n : shape_in) shape[i++] = n;
  stride0 = row_elements();
}

template <class Memory>
std::int64_t BasicTensor<Memory>::row_elements() const {
  std::int64_t n = 1;
  for (int i = 1; i < ndim; ++i) n *= shape[i];
  return n;
}

template <class Memory>
std::int64_t BasicTensor<Memory>::num_elements() const {
  return ndim == 0 ? 0 : shape[0] * row_elements();
}

template <class Memory>
std::size_t BasicTensor<Memory>::size_bytes() const {
  return num_elements() * size_of(dtype);
}

template <class Memory>
BasicTensor<Memory> BasicTensor<Memory>::rows(std::int64_t begin, std::int64_t count) const {
  SFT_ENSURE(begin >= 0 && count >= 0, "rows within the tensor");
  SFT_ENSURE(begin + count <= shape[0], "rows within the tensor");
  BasicTensor t = *this;
  t.data = as<std::byte>() + begin * stride0 * size_of(dtype);
  t.shape[0] = count;
  return t;
}

template <class Memory>
BasicTensor<Memory> BasicTensor<Memory>::columns(std::int64_t begin, std::int64_t count) const {
  SFT_ENSURE(ndim == 2 && begin >= 0 && count >= 0, "columns within the tensor");
  SFT_ENSURE(begin + count <= shape[1], "columns within the tensor");
  BasicTensor t = *this;
  t.data = as<std::byte>() + begin * size_of(dtype);
  t.shape[1] = count;
  return t;
}

template <class Memory>
BasicTensor<Memory> BasicTensor<Memory>::view(std::initializer_list<std::int64_t> new_shape) const {
  BasicTensor t(data, dtype, new_shape);
  SFT_ENSURE(t.num_elements() == num_elements(), "view keeps the number of elements");
  if (!is_contiguous()) {
    SFT_ENSURE(t.shape[0] == shape[0], "view of a strided tensor keeps the first dim");
    t.stride0 = stride0;
  }
  return t;
}

template struct BasicTensor<void>;
template struct BasicTensor<const void>;

Tensor take(device::Arena& arena, DType dtype, std::initializer_list<std::int64_t> shape) {
  Tensor t(nullptr, dtype, shape);
  t.data = arena.take(t.size_bytes());
  return t;
}

}  // namespace sft
