// SPDX-License-Identifier: Apache-2.0
#include "sft/transfer/mover.hpp"

namespace sft::transfer {

std::vector<Move> moves_of(std::size_t place, const std::vector<Tensor>& tensors) {
  std::vector<Move> moves;
  std::size_t at = 0;
  for (const Tensor& tensor : tensors) {
    moves.push_back({.place = place, .at = at, .memory = tensor});
    at += tensor.size_bytes();
  }
  return moves;
}

}  // namespace sft::transfer
