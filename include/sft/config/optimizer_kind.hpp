// SPDX-License-Identifier: Apache-2.0
#pragma once
// The optimizers that optimizer.optim names: everything about them that text says.

#include <array>

namespace sft::config {

enum class OptimizerKind { adamw_torch, adamw_8bit, adafactor, lion, muon, sgd };

struct OptimizerName {
  OptimizerKind kind;
  const char* name;   ///< as transformers has it, where it has it
  const char* about;  ///< for --help; may be empty
  /// What transformers calls it too: other implementations of the same arithmetic. The last ones are null.
  std::array<const char*, 3> synonyms = {};
};

/// In the order of the documentation; each once.
inline constexpr std::array optimizer_names{
    OptimizerName{OptimizerKind::adamw_torch, "adamw_torch", "", {"adamw_torch_fused", "paged_adamw_32bit", "adamw"}},
    OptimizerName{OptimizerKind::adamw_8bit,
                  "adamw_8bit",
                  "its moments in 8 bits, as bitsandbytes has them",
                  {"adamw_bnb_8bit", "paged_adamw_8bit"}},
    OptimizerName{OptimizerKind::adafactor, "adafactor", "of a matrix the means of rows and columns alone"},
    OptimizerName{OptimizerKind::lion,
                  "lion",
                  "one moment; take a third of AdamW's rate, and three times its decay",
                  {"lion_32bit", "paged_lion_32bit"}},
    OptimizerName{OptimizerKind::muon, "muon", "matrices of blocks; AdamW for the rest"},
    OptimizerName{OptimizerKind::sgd, "sgd", "no state"},
};

}  // namespace sft::config
