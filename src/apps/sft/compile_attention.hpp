// SPDX-License-Identifier: Apache-2.0
#pragma once
// `sft --compile-attention`: graphs of cuDNN's attention before a run asks for them, on a node without a GPU.

#include "options.hpp"
#include "sft/config/valid_config.hpp"

namespace sft::apps {

/// Compiles what the run of `given` will ask for on the machine that the command line names, by all cores, into the
/// folder where that run looks, and prints a table of it. Throws a configuration Error where this cannot be done. One
/// rank.
void compile_attention(const config::ValidConfig& given, const SftOptions& command);

}  // namespace sft::apps
