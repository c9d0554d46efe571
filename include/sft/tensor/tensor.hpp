// SPDX-License-Identifier: Apache-2.0
#pragma once
// A typed, non-owning view of device memory: contiguous but for the distance between neighbours of its first dim.

#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "sft/core/dtype.hpp"
#include "sft/device/arena.hpp"

namespace sft {

struct Tensor {
  static constexpr int max_ndim = 4;

  void* data = nullptr;
  DType dtype = DType::float32;
  int ndim = 0;
  std::array<std::int64_t, max_ndim> shape{};
  std::int64_t stride0 = 0;  ///< elements between [i, ...] and [i + 1, ...]

  Tensor() = default;
  /// A contiguous view. Throws std::logic_error unless shape has 1 to max_ndim dims.
  Tensor(void* data, DType dtype, std::initializer_list<std::int64_t> shape);

  [[nodiscard]] bool empty() const { return data == nullptr || num_elements() == 0; }
  [[nodiscard]] std::int64_t num_elements() const;
  /// Elements of one [i, ...].
  [[nodiscard]] std::int64_t row_elements() const;
  /// Of the elements; the gaps of a strided view are not counted.
  [[nodiscard]] std::size_t size_bytes() const;
  [[nodiscard]] bool is_contiguous() const { return ndim == 0 || stride0 == row_elements(); }

  template <class T>
  [[nodiscard]] T* as() const {
    return static_cast<T*>(data);
  }

  // rows, columns and view give views of the same memory. They throw std::logic_error when it does not hold what is
  // asked for.
  /// [begin, begin + count) of the first dim; keeps stride0.
  [[nodiscard]] Tensor rows(std::int64_t begin, std::int64_t count) const;
  /// 2-D only: columns [begin, begin + count) of every row; keeps stride0.
  [[nodiscard]] Tensor columns(std::int64_t begin, std::int64_t count) const;
  /// Same elements, other dims. A non-contiguous view may only split or merge dims after the first.
  [[nodiscard]] Tensor view(std::initializer_list<std::int64_t> new_shape) const;
};

/// A contiguous tensor taken from `arena`, which owns its memory; contents undefined. Throws std::logic_error beyond
/// the capacity of a real arena.
[[nodiscard]] Tensor take(device::Arena& arena, DType dtype, std::initializer_list<std::int64_t> shape);

}  // namespace sft
