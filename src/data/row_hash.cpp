// SPDX-License-Identifier: Apache-2.0
#include "data/row_hash.hpp"

#include <numeric>

namespace sft::data {

void RowHash::add(std::span<const std::int32_t> document_lengths, std::span<const std::int32_t> tokens,
                  std::span<const float> loss_weight) {
  const std::size_t num_tokens = std::accumulate(document_lengths.begin(), document_lengths.end(), std::size_t{0});
  hash_.add(static_cast<std::int64_t>(document_lengths.size()));
  hash_.add(document_lengths);
  hash_.add(tokens.first(num_tokens));
  hash_.add(loss_weight.first(num_tokens));
}

}  // namespace sft::data
