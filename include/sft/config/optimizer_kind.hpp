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
  std::array<const char*, 5> synonyms = {};
};

/// In the order of the documentation; each once.
inline constexpr std::array optimizer_names{
    OptimizerName{OptimizerKind::adamw_torch,
                  "adamw_torch",
                  "",
                  {"adamw_torch_fused", "paged_adamw_32bit", "adamw", "adamw_torch_xla", "adamw_torch_npu_fused"}},
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

/// Optimizers of transformers that there are not, and what to write in their place.
struct OtherOptimizers {
  const char* names;  ///< each between blanks
  const char* what_to_write;
};

inline constexpr std::array other_optimizers{
    OtherOptimizers{" adamw_torch_8bit ",
                    "adamw_8bit, whose moments have the 8 bits and blocks that torchao's adamw_torch_8bit has"},
    OtherOptimizers{" adamw_torch_4bit adamw_4bit ",
                    "another optimizer: no moments are in 4 bits; write adamw_8bit, or adafactor, which has none of a "
                    "matrix but its rows' and columns'"},
    OtherOptimizers{" lion_8bit paged_lion_8bit ",
                    "another optimizer: the moment of lion is not in 8 bits; write lion, or adamw_8bit"},
    OtherOptimizers{" adamw_anyprecision ",
                    "another optimizer: moments are in float32; write adamw_torch, or adamw_8bit, which takes less "
                    "memory"},
    OtherOptimizers{" ademamix ademamix_8bit paged_ademamix_32bit paged_ademamix_8bit ",
                    "another optimizer: there is no AdEMAMix, which has a second average of gradients; write "
                    "adamw_torch, or adamw_8bit"},
    OtherOptimizers{" adagrad rmsprop rmsprop_bnb rmsprop_bnb_8bit rmsprop_bnb_32bit ",
                    "another optimizer: one that divides by past gradients and has no momentum is not there; write "
                    "adamw_torch with adam_beta1 = 0, or adafactor"},
    OtherOptimizers{" galore_adamw galore_adamw_8bit galore_adafactor galore_adamw_layerwise "
                    "galore_adamw_8bit_layerwise galore_adafactor_layerwise apollo_adamw apollo_adamw_layerwise ",
                    "another optimizer: none projects gradients; write adafactor or adamw_8bit, which take little "
                    "memory, or train adapters with lora.use_peft"},
    OtherOptimizers{" lomo adalomo ",
                    "another optimizer: none steps within the backward pass; write adafactor or sgd, which take little "
                    "memory"},
    OtherOptimizers{" grokadamw stable_adamw ",
                    "another optimizer: there is no such variant of AdamW; write adamw_torch, whose max_grad_norm "
                    "holds gradients back"},
    OtherOptimizers{" schedule_free_radam schedule_free_adamw schedule_free_sgd ",
                    "another optimizer: none averages weights in place of a schedule; write adamw_torch or sgd with "
                    "lr_scheduler_type = constant_with_warmup"},
};

}  // namespace sft::config
