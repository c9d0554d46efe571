// SPDX-License-Identifier: Apache-2.0
#pragma once
// Vocabulary-parallel embedding (Shoeybi et al. 2019); see ops::Backend.

#include "ops/cuda/kernels/view.hpp"

namespace sft::ops::cuda {

void embedding_forward(View out, const std::int32_t* tokens, ConstView table, std::int64_t vocab_begin,
                       cudaStream_t stream);

/// Tokens of the same id are summed up in their order, at most 524288 tokens at a time. `workspace` has at least
/// embedding_backward_bytes.
void embedding_backward(View dtable, const std::int32_t* tokens, ConstView dout, std::int64_t vocab_begin,
                        Workspace workspace, cudaStream_t stream);
/// For rows of `columns`: two copies of sorted ids and positions and the counters of the sort, 9 MiB in all, and two
/// rows of sums at least.
[[nodiscard]] std::size_t embedding_backward_bytes(std::int64_t columns);

}  // namespace sft::ops::cuda
