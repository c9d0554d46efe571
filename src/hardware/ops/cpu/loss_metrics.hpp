// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "ops/views/cross_entropy.hpp"

namespace sft::ops::cpu {

/// metrics (4) += the sums of ops::CrossEntropyFinish. For all instruction sets the same code, so that they agree in
/// every bit.
void add_loss_metrics(const CrossEntropyView& chunk, double* metrics);

}  // namespace sft::ops::cpu
