// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows of a table by token, vocabulary-parallel: `table` (V, C) holds ids [vocab_begin, vocab_begin + V); others give
// zero rows.

#include <cstdint>

#include "sft/ops/describe.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

struct EmbeddingForward {
  static constexpr const char* name = "embedding_forward";
  Tensor out;          ///< (T, C) of the table's dtype, or float32
  ConstTensor tokens;  ///< (T) int32
  ConstTensor table;   ///< (V, C) compute dtype
  std::int64_t vocab_begin;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.in("table", table, "V C", Types::compute);
    op.in("tokens", tokens, "T", Types::int32);
    op.out("out", out, "T C", Types::compute_or_float32);
    op.scalar("vocab_begin", vocab_begin);
  }
};

/// dtable += the rows of dout.
struct EmbeddingBackward {
  static constexpr const char* name = "embedding_backward";
  Tensor dtable;       ///< (V, C) float32
  ConstTensor tokens;  ///< (T) int32
  ConstTensor dout;    ///< (T, C) compute dtype
  std::int64_t vocab_begin;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.add("dtable", dtable, "V C", Types::float32);
    op.in("tokens", tokens, "T", Types::int32);
    op.in("dout", dout, "T C", Types::any);
    op.scalar("vocab_begin", vocab_begin);
  }
};

}  // namespace sft::ops
