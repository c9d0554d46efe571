// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fields that Gemma 2 and 3 have alike.

#include "hub/families/family.hpp"

namespace sft::hub {

/// Reads all but windows, rotary embedding and caps.
void read_gemma(const Reading& r);
/// The cap in field `name`, 0 where it is null; `fallback` where it is not there.
[[nodiscard]] double read_cap(const Reading& r, const char* name, double fallback);
/// Reads the cap on logits, which transformers does not read in the tower of a larger model.
void read_logit_cap(const Reading& r, double fallback);

/// Writes gate, scores and caps.
void write_gemma(const Writing& w);
/// query_pre_attn_scalar, by whose root scores are divided.
[[nodiscard]] double score_divisor_of(const config::Model& model);

}  // namespace sft::hub
