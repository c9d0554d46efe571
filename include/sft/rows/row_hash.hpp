// SPDX-License-Identifier: Apache-2.0
#pragma once
// The content hash of packed rows: what makes two data sets the same.

#include <cstdint>
#include <numeric>
#include <span>
#include <string>

#include "sft/io/hash.hpp"

namespace sft::rows {

/// Rows in order, each by its document lengths and by the tokens and weights of its documents. Padding does not count.
class RowHash {
 public:
  /// `tokens` and `loss_weight` begin with those of the documents and may go on with padding.
  void add(std::span<const std::int32_t> document_lengths, std::span<const std::int32_t> tokens,
           std::span<const float> loss_weight) {
    const std::size_t num_tokens = std::accumulate(document_lengths.begin(), document_lengths.end(), std::size_t{0});
    hash_.add(static_cast<std::int64_t>(document_lengths.size()));
    hash_.add(document_lengths);
    hash_.add(tokens.first(num_tokens));
    hash_.add(loss_weight.first(num_tokens));
  }
  [[nodiscard]] std::string text() const { return hash_.text(); }

 private:
  io::ContentHash hash_;
};

}  // namespace sft::rows
