// SPDX-License-Identifier: Apache-2.0
#pragma once
// Granite's multipliers.

#include "hub/families/family.hpp"

namespace sft::hub {

/// Reads the multipliers of embedding, scores, residual stream and logits, each 1 where it is not there.
void read_multipliers(const Reading& r);

}  // namespace sft::hub
