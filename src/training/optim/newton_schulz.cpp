// SPDX-License-Identifier: Apache-2.0
#include "newton_schulz.hpp"

#include <algorithm>

namespace sft::optim {

void NewtonSchulz::reserve(std::int64_t rows, std::int64_t columns) {
  max_elements_ = std::max(max_elements_, rows * columns);
  max_side_ = std::max(max_side_, std::min(rows, columns));
}

void NewtonSchulz::lay_out(device::Arena& arena) {
  input_ = take(arena, DType::bf16, {max_elements_});
  gram_ = take(arena, DType::float32, {max_side_ * max_side_});
  gram_bf16_ = take(arena, DType::bf16, {max_side_ * max_side_});
}

Tensor NewtonSchulz::input(std::int64_t rows, std::int64_t columns) const {
  return input_.rows(0, rows * columns).view({rows, columns});
}

// A step is x <- a x + (b A + c A A) x with A = x x^T; of a tall matrix all of it transposed, so that A has the shorter
// side. Products add to what their output holds, so both sums are formed divided by c: the first stays so, as (b/c) A +
// A A, the second, (a/c) x + that x, is multiplied by c.
void NewtonSchulz::run(ops::Backend& backend, const Tensor& x, const Tensor& product) const {
  constexpr float a = 3.4445F, b = -4.7750F, c = 2.0315F;
  constexpr int num_steps = 5;
  const bool is_wide = x.shape[0] <= x.shape[1];
  const std::int64_t side = std::min(x.shape[0], x.shape[1]);
  const Tensor gram = gram_.rows(0, side * side).view({side, side});
  const Tensor factor = gram_bf16_.rows(0, side * side).view({side, side});
  for (int step = 0; step < num_steps; ++step) {
    backend.run(ops::Matmul{.a = x, .b = x, .c = gram, .transpose_a = !is_wide, .transpose_b = is_wide});
    backend.run(ops::Copy{factor, gram});
    backend.run(ops::Copy{gram, factor});  // near A = 1 what rounding did to A nearly cancels in the sum
    backend.run(ops::Scale{gram, b / c});
    backend.run(ops::Matmul{.a = factor, .b = factor, .c = gram, .accumulate = true});
    backend.run(ops::Copy{factor, gram});
    backend.run(ops::Copy{product, x});
    backend.run(ops::Scale{product, a / c});
    backend.run(ops::Matmul{.a = is_wide ? factor : x, .b = is_wide ? x : factor, .c = product, .accumulate = true});
    backend.run(ops::Scale{product, c});
    backend.run(ops::Copy{x, product});
  }
}

}  // namespace sft::optim
