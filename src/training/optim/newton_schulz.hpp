// SPDX-License-Identifier: Apache-2.0
#pragma once
// The orthogonal matrix nearest to a given one, about: the iteration of Muon (Jordan et al. 2024), with the
// coefficients and the number of steps of torch.optim.Muon.

#include <cstdint>

#include "sft/device/arena.hpp"
#include "sft/ops/backend.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::optim {

class NewtonSchulz {
 public:
  /// Counts a matrix of this shape among those that run() will be called with.
  void reserve(std::int64_t rows, std::int64_t columns);
  /// Takes scratch memory; call with a sizing arena, then with a real one.
  void lay_out(device::Arena& arena);

  /// Scratch memory for the bf16 matrix (rows, columns) that run() works on.
  [[nodiscard]] Tensor input(std::int64_t rows, std::int64_t columns) const;
  /// x, bf16 (rows, columns), of a Frobenius norm of at most 1, becomes about U V^T of its singular value decomposition
  /// U S V^T. The products are of bf16 matrices, summed in float32. `product`, float32 (rows, columns), is overwritten.
  void run(ops::Backend& backend, const Tensor& x, const Tensor& product) const;

 private:
  std::int64_t max_elements_ = 0, max_side_ = 0;  ///< the shorter side
  Tensor input_;                                  ///< bf16, flat
  Tensor gram_, gram_bf16_;                       ///< flat, of the shorter side
};

}  // namespace sft::optim
