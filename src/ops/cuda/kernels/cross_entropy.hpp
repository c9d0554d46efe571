// SPDX-License-Identifier: Apache-2.0
#pragma once
// Vocabulary-parallel cross-entropy (Shoeybi et al. 2019) in the three steps of ops::Backend.

#include "ops/cuda/kernels/view.hpp"

namespace sft::ops::cuda {

void cross_entropy_max(const CrossEntropyArguments& chunk, cudaStream_t stream);
void cross_entropy_partials(const CrossEntropyArguments& chunk, cudaStream_t stream);
/// metrics (4) += the sums of ops::Backend::cross_entropy_finish.
void cross_entropy_metrics(const CrossEntropyArguments& chunk, double* metrics, cudaStream_t stream);
/// dlogits may be the logits.
void cross_entropy_gradient(const CrossEntropyArguments& chunk, View dlogits, double gradient_scale,
                            cudaStream_t stream);

}  // namespace sft::ops::cuda
