// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>

namespace sft::ops {

/// Kinds of ops that are no products, by what they compute on each element: their rates differ.
enum class Pass {
  copy,
  add,
  norm_forward,
  norm_backward,
  rope,
  mlp_forward,
  mlp_backward,
  loss_forward,
  loss_backward,
  embedding_forward,
  embedding_backward,
  sum_squares,
  update,
};
inline constexpr std::size_t num_passes = 13;
inline constexpr std::array<const char*, num_passes> pass_names{"copy",
                                                                "add",
                                                                "norm_forward",
                                                                "norm_backward",
                                                                "rope",
                                                                "mlp_forward",
                                                                "mlp_backward",
                                                                "loss_forward",
                                                                "loss_backward",
                                                                "embedding_forward",
                                                                "embedding_backward",
                                                                "sum_squares",
                                                                "update"};

}  // namespace sft::ops
