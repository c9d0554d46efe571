// SPDX-License-Identifier: Apache-2.0
#pragma once
// The [lora] section: which modules of a model have adapters, of what size, and what is trained whole beside them. A
// module is named by its path in the model, such as model.layers.0.self_attn.q_proj, and matched as PEFT 0.21 does.

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "sft/core/four_bits.hpp"

namespace sft::config {

/// What the matrices of an adapter begin with: init_lora_weights of PEFT.
enum class LoraInit {
  zero_b,    ///< "true": A as torch.nn.Linear begins with, B zero: the model does not change at first
  linear,    ///< "false": both as torch.nn.Linear begins with
  gaussian,  ///< A normal with deviation 1 / rank, B zero
  // Both are a part of the weight, which is taken out of it:
  pissa,  ///< the largest singular values and their vectors (Meng et al. 2024)
  olora,  ///< the first columns of Q and rows of R, where QR is the weight (Büyükakyüz 2024)
};

struct AdapterInit {
  LoraInit kind = LoraInit::zero_b;
  /// Of pissa: steps of subspace iteration in which the vectors are sought (pissa_niter_N); none: they are exact.
  std::optional<std::int64_t> iterations = {};

  /// Whether adapters begin with a part of the weights.
  [[nodiscard]] bool splits_weights() const { return kind == LoraInit::pissa || kind == LoraInit::olora; }

  bool operator==(const AdapterInit&) const = default;
};

/// Numbers for modules by regular expressions of the end of their paths; the first that matches counts.
using ModuleNumbers = std::vector<std::pair<std::string, double>>;

struct AdapterSize {
  std::int64_t rank;
  double scale;  ///< what the product of the adapter is multiplied with
};

/// Low-rank adapters (Hu et al. 2021) under PEFT's names: with use_peft they are trained, all other weights are frozen.
struct Lora {
  bool use_peft = false;
  std::int64_t lora_r = 16;
  double lora_alpha = 32.0;
  double lora_dropout = 0.05;
  /// "all-linear", or names such as q_proj.
  std::vector<std::string> lora_target_modules = {"all-linear"};
  /// Weights of a layer's experts that have adapters, by their paths or ends of them behind a dot: gate_up_proj or
  /// experts.down_proj.
  std::vector<std::string> lora_target_parameters;
  bool use_rslora = false;
  ModuleNumbers rank_pattern, alpha_pattern;      ///< in place of lora_r and lora_alpha
  std::vector<std::int64_t> layers_to_transform;  ///< blocks that have adapters; empty: all
  std::vector<std::string> layers_pattern;  ///< regular expressions, one of which is what holds the blocks: layers
  AdapterInit init_lora_weights;
  std::vector<std::string> modules_to_save;  ///< ends of paths of modules that are trained whole
  bool use_dora = false;                     ///< rows of adapted weights have magnitudes (DoRA, Liu et al. 2024)
  double loraplus_lr_ratio = 1.0;            ///< rate of B and of vectors, by that of A (LoRA+, Hayou et al. 2024)

  // QLoRA (Dettmers et al. 2023), under the names of TRL: frozen matrices of linear layers are kept in 4 bits.
  bool load_in_4bit = false;
  FourBitType bnb_4bit_quant_type = FourBitType::nf4;
  bool use_bnb_nested_quant = false;  ///< and their scales in 8
  bool quantize_moe_experts = false;  ///< the matrices of experts, too, under the name of Axolotl
  /// Modules whose matrices stay numbers beside these, as transformers reads the names: the beginning of a path up to a
  /// dot, a regular expression of that, or the end of a path.
  std::vector<std::string> llm_int8_skip_modules;

  /// How frozen matrices of linear layers are kept; none: as all weights.
  [[nodiscard]] std::optional<FourBitForm> four_bit_form() const;
  /// How frozen matrices of experts are kept.
  [[nodiscard]] std::optional<FourBitForm> four_bit_form_of_experts() const;
  /// Whether llm_int8_skip_modules names the linear layer.
  [[nodiscard]] bool skips_four_bits(const std::string& module) const;
  /// Whether linear layers called `name`, such as q_proj, have adapters.
  [[nodiscard]] bool adapts(const std::string& name) const;
  /// Whether adapters may be in the block that the module belongs to.
  [[nodiscard]] bool transforms_block_of(const std::string& module) const;
  /// Rank and scale of an adapter of the module: alpha / r, or alpha / sqrt(r) with use_rslora (Kalajdzievski 2023).
  [[nodiscard]] AdapterSize size_of(const std::string& module) const;
  /// Rank and scale of the module's adapter; none: it has no adapter.
  [[nodiscard]] std::optional<AdapterSize> adapter_of(const std::string& module) const;
  /// Whether experts have adapters.
  [[nodiscard]] bool adapts_experts() const { return use_peft && !lora_target_parameters.empty(); }
  /// Rank and scale of the adapters of a weight of a layer's experts, by its path in transformers, such as
  /// model.layers.0.mlp.experts.gate_up_proj, one for each expert; none: it has none. As PEFT has it,
  /// layers_to_transform says nothing of them.
  [[nodiscard]] std::optional<AdapterSize> expert_adapter_of(const std::string& parameter) const;
  /// The same function beside the weights as they were before adapters began with a part of them: of twice the ranks,
  /// for what was taken out of the weights is subtracted again. As it is where adapters began otherwise.
  [[nodiscard]] Lora beside_whole_weights() const;
  /// The largest rank that size_of can say.
  [[nodiscard]] std::int64_t max_rank() const;
  /// Whether a copy of the module is trained whole.
  [[nodiscard]] bool saves(const std::string& module) const;

  bool operator==(const Lora&) const = default;
};

/// Whether a name of llm_int8_skip_modules is about the module. Throws std::invalid_argument with the reason for a text
/// that is no regular expression.
[[nodiscard]] bool skips(const std::string& name, const std::string& module);

/// The weights of a layer's experts that adapters can be added to: first what reads the tokens, then what gives them
/// back.
[[nodiscard]] const std::vector<std::string>& expert_parameter_names();
/// The modules that can be trained whole beside adapters, by the last part of their paths.
[[nodiscard]] const std::vector<std::string>& whole_module_names();

/// Whether PEFT's regular expression of a module's path, or of its end behind a dot, matches. Throws
/// std::invalid_argument with the reason for a text that is none.
[[nodiscard]] bool matches_end(const std::string& pattern, const std::string& module);

}  // namespace sft::config
