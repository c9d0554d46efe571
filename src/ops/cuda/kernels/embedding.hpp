// SPDX-License-Identifier: Apache-2.0
#pragma once
// Vocabulary-parallel embedding; see ops::Backend.

#include "ops/cuda/kernels/view.hpp"

namespace sft::ops::cuda {

void embedding_forward(View out, const std::int32_t* tokens, View table, std::int64_t vocab_begin, cudaStream_t stream);

/// Device memory that embedding_backward works in, for T tokens and C columns: 16 bytes a token for two copies of
/// sorted (id, position), a counter for each block and digit of the sort, and a row of float32 sums for both ends of
/// each piece of the sorted tokens, of which there are at most 512.
[[nodiscard]] std::size_t embedding_backward_bytes(std::int64_t num_tokens, std::int64_t num_columns);
void embedding_backward(View dtable, const std::int32_t* tokens, View dout, std::int64_t vocab_begin,
                        Workspace workspace, cudaStream_t stream);

}  // namespace sft::ops::cuda
