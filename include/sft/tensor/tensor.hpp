// SPDX-License-Identifier: Apache-2.0
#pragma once
// Typed, non-owning views of device memory, contiguous but for the distance between neighbours of their first dim:
// `Tensor`, and `ConstTensor` for memory that is only read.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <type_traits>

#include "sft/core/dtype.hpp"
#include "sft/device/arena.hpp"

namespace sft {

/// `Memory` is void, or const void for a view that only reads.
template <class Memory>
struct BasicTensor {
  static constexpr int max_ndim = 4;
  static constexpr bool is_const = std::is_const_v<Memory>;
  template <class T>
  using Element = std::conditional_t<is_const, const T, T>;

  Memory* data = nullptr;
  DType dtype = DType::float32;
  int ndim = 0;
  std::array<std::int64_t, max_ndim> shape{};
  std::int64_t stride0 = 0;  ///< elements between [i, ...] and [i + 1, ...]

  BasicTensor() = default;
  /// A contiguous view. Throws std::logic_error unless shape has 1 to max_ndim dims.
  BasicTensor(Memory* data, DType dtype, std::initializer_list<std::int64_t> shape);
  /// What may be written may be read, never the other way round.
  template <class Other>
  requires(is_const&& std::is_same_v<Other, void>) BasicTensor(const BasicTensor<Other>& x)
      : data(x.data), dtype(x.dtype), ndim(x.ndim), shape(x.shape), stride0(x.stride0) {}

  [[nodiscard]] bool empty() const { return data == nullptr || num_elements() == 0; }
  [[nodiscard]] std::int64_t num_elements() const;
  /// Elements of one [i, ...].
  [[nodiscard]] std::int64_t row_elements() const;
  /// Bytes of the elements; the gaps of a strided view are not counted.
  [[nodiscard]] std::size_t size_bytes() const;
  [[nodiscard]] bool is_contiguous() const { return ndim == 0 || stride0 == row_elements(); }

  /// The first element: T*, or const T* of a view that only reads.
  template <class T>
  [[nodiscard]] Element<T>* as() const {
    return static_cast<Element<T>*>(data);
  }

  // rows, columns and view give views of the same memory. They throw std::logic_error when it does not hold what is
  // asked for.
  /// [begin, begin + count) of the first dim; keeps stride0.
  [[nodiscard]] BasicTensor rows(std::int64_t begin, std::int64_t count) const;
  /// 2-D only: columns [begin, begin + count) of every row; keeps stride0.
  [[nodiscard]] BasicTensor columns(std::int64_t begin, std::int64_t count) const;
  /// Same elements, other dims. A non-contiguous view may only split or merge dims after the first.
  [[nodiscard]] BasicTensor view(std::initializer_list<std::int64_t> new_shape) const;
};

extern template struct BasicTensor<void>;
extern template struct BasicTensor<const void>;

using Tensor = BasicTensor<void>;
using ConstTensor = BasicTensor<const void>;

/// A contiguous tensor taken from `arena`, which owns its memory; contents undefined. Throws std::logic_error beyond
/// the capacity of a real arena.
[[nodiscard]] Tensor take(device::Arena& arena, DType dtype, std::initializer_list<std::int64_t> shape);

}  // namespace sft
