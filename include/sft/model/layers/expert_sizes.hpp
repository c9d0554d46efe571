// SPDX-License-Identifier: Apache-2.0
#pragma once
// Local sizes of layers with experts. Pure.

#include <algorithm>
#include <cstdint>

#include "sft/core/cast.hpp"
#include "sft/parallel/expert_exchange.hpp"

namespace sft::model {

struct ExpertSizes {
  std::int64_t tokens = 0;        ///< of a micro-batch at most, on this rank
  std::int64_t count = 0;         ///< experts of a layer; 0 where no layer has any
  std::int64_t choices = 0;       ///< of them, that a token goes through
  std::int64_t columns = 0;       ///< of one on this rank
  std::int64_t alignment = 1;     ///< of the rows of each, where it is (ops::ExpertOrder)
  int ep_size = 1;                ///< ranks that share the experts
  std::int64_t adapter_rank = 0;  ///< the largest of adapters of experts; 0: they have none
  /// Gradients of what the first layer of experts gives are kept as codes of fp8, in the memory of activations.
  bool keeps_codes = false;

  /// Rows of all experts that `num_tokens` tokens of this rank go through, where the tokens are.
  [[nodiscard]] std::int64_t rows(std::int64_t num_tokens) const {
    return num_tokens * choices + count * (home_alignment() - 1);
  }
  /// Alignment of the rows of each expert where the tokens are: 1 over ep, because rows that travel lie without gaps.
  [[nodiscard]] std::int64_t home_alignment() const { return ep_size == 1 ? alignment : 1; }
  [[nodiscard]] std::int64_t local_count() const { return count / ep_size; }
  /// Rows that this rank's experts have memory for: over ep twice the mean of what arrives, or all that ever can.
  [[nodiscard]] std::int64_t arriving_rows() const {
    if (ep_size == 1) return rows(tokens);
    const std::int64_t most = ep_size * tokens * std::min(choices, local_count());
    return parallel::ExpertMemory::arriving(std::min(most, 2 * tokens * choices), static_cast<int>(local_count()),
                                            ep_size, alignment);
  }
  /// The first row of the activations of a piece of what arrives (parallel::ExpertRoute), its number `piece`, with rows
  /// from `first_row` on, of experts from `first_expert` on. Where codes are kept, lines of them have a term for each
  /// row of an expert, up to a multiple of 16: the activations of pieces lie apart for those.
  [[nodiscard]] std::int64_t act_begin(std::int64_t first_row, std::int64_t first_expert, std::int64_t piece) const {
    constexpr std::int64_t line_codes = 16;
    if (!keeps_codes || alignment % line_codes == 0) return first_row;
    return round_up(first_row + (line_codes - 1) * (first_expert + piece), line_codes);
  }
  /// Rows of the activations of all of them.
  [[nodiscard]] std::int64_t act_rows() const {
    return act_begin(arriving_rows(), local_count(), ep_size == 1 ? 1 : parallel::ExpertRoute::max_pieces);
  }
  /// Rows that one expert of this rank can have at a time, gaps included: a token is in an expert once.
  [[nodiscard]] std::int64_t most_rows_of_one() const {
    return count == 0 ? 0 : std::min(round_up(ep_size * tokens, alignment), arriving_rows());
  }
  [[nodiscard]] parallel::ExpertMemory memory() const { return {arriving_rows(), alignment}; }
};

}  // namespace sft::model
