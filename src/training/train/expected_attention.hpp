// SPDX-License-Identifier: Apache-2.0
#pragma once
// Tells the backend which documents it will attend within, so that a library of attention compiles for all of them at
// the start and no later step waits for it.

#include "sft/comm/group.hpp"
#include "sft/ops/backend.hpp"
#include "sft/rows/loader.hpp"
#include "sft/rows/packed_dataset.hpp"

namespace sft::train {

/// Of the rows that `plan` delivers first, up to 4096 for each data rank. `rows`: the ranks that share rows with this
/// one, of which the first reads; where it cannot, nothing is expected, and who reads these rows next says why.
/// Collective over `rows`.
void expect_attention(ops::Backend& backend, const rows::PackedDataset& dataset, const rows::LoaderPlan& plan,
                      const comm::Group& rows);

}  // namespace sft::train
