// SPDX-License-Identifier: Apache-2.0
// Vocabulary-parallel embedding.

#include "sft/ops/calls/embedding.hpp"
#include "ops/cpu/kernels/run.hpp"
#include "ops/cpu/kernels/types.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {}  // namespace

template <>
void run(const EmbeddingForward& op, Scratch) {
  const View out = view_of(op.out);
  const ConstView table = view_of(op.table);
  const std::int32_t* const tokens = int32s_of(op.tokens);
  const std::int64_t vocab_begin = op.vocab_begin;
  with_type(table, [&](auto table_type) {
    with_type(out, [&](auto out_type) {
      using From = typename decltype(table_type)::type;
      using To = typename decltype(out_type)::type;
#pragma omp parallel for if (out.rows * out.columns >= min_parallel_elements)
      for (std::int64_t t = 0; t < out.rows; ++t) {
        const std::int64_t id = tokens[t] - vocab_begin;
        To* to = row<To>(out, t);
        if (id >= 0 && id < table.rows) {
          const From* from = row<From>(table, id);
#pragma omp simd
          for (std::int64_t c = 0; c < out.columns; ++c) store(to[c], load(from[c]));
        } else {
          for (std::int64_t c = 0; c < out.columns; ++c) store(to[c], 0.0f);
        }
      }
    });
  });
}

/// Threads share out the columns, so that every sum is formed in the order of the tokens.
template <>
void run(const EmbeddingBackward& op, Scratch) {
  const View dtable = view_of(op.dtable);
  const ConstView dout = view_of(op.dout);
  const std::int32_t* const tokens = int32s_of(op.tokens);
  const std::int64_t vocab_begin = op.vocab_begin;
  constexpr std::int64_t block_columns = 64;
  const std::int64_t num_blocks = divide_up(dout.columns, block_columns);
  with_type(dout, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel if (dout.rows * dout.columns >= min_parallel_elements)
    {
      std::int64_t begin = dout.columns, end = 0;  // the neighbouring blocks of this thread
#pragma omp for schedule(static) nowait
      for (std::int64_t block = 0; block < num_blocks; ++block) {
        begin = min(begin, block * block_columns);
        end = min(dout.columns, (block + 1) * block_columns);
      }
      for (std::int64_t t = 0; begin < end && t < dout.rows; ++t) {
        const std::int64_t id = tokens[t] - vocab_begin;
        if (id < 0 || id >= dtable.rows) continue;
        float* to = row<float>(dtable, id);
        const T* from = row<T>(dout, t);
#pragma omp simd
        for (std::int64_t c = begin; c < end; ++c) to[c] += load(from[c]);
      }
    }
  });
}

}  // namespace sft::ops::cpu::SFT_ISA
