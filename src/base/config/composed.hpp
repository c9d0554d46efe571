// SPDX-License-Identifier: Apache-2.0
#pragma once
// Settings of other trainers that say several things at once, or leave something to a default of theirs.

#include <vector>

#include "config/names.hpp"

namespace sft::config {

/// The single settings that `written` consists of: the words of `fsdp`, the entries of a JSON object such as
/// gradient_checkpointing_kwargs, and the two keys of `mixed_precision = fp8`. Any other setting comes back as it is.
/// Throws a configuration Error for an object that cannot be read.
[[nodiscard]] std::vector<Written> parts_of(const Written& written);

/// Throws a configuration Error where two settings of one source say one thing in two ways: use_fsdp and use_deepspeed,
/// dtype and torch_dtype.
void check_rivals(const std::vector<Written>& source);

/// Drops the weaker of gradient_checkpointing and activation_checkpointing, whose alias it is in transformers from 5.23
/// on, where a file has both: true wins over false, as there.
void drop_alias(std::vector<Written>& source);

/// Adds to the settings of one source the ZeRO stage that a way of distributing stands for, unless another of them says
/// it: multi_gpu has copies of the model, use_fsdp shards all of it, use_deepspeed is stage 2.
void add_stage_of_launcher(std::vector<Written>& source);

}  // namespace sft::config
