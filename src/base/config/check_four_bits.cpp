// SPDX-License-Identifier: Apache-2.0
// What a model must be whose frozen matrices are kept in 4 bits.
#include <fmt/core.h>
#include <array>

#include "config/checks.hpp"
#include "sft/core/error.hpp"

namespace sft::config {

namespace {

/// Columns of matrices that a rank has.
struct Columns {
  const char* what;
  std::int64_t all;
  bool is_split;  ///< over tp
  const char* setting = "load_in_4bit";
};

}  // namespace

void check_four_bits(const Config& config) {
  if (!config.lora.load_in_4bit) {
    if (!config.lora.llm_int8_skip_modules.empty()) {
      throw_config_error("`lora.llm_int8_skip_modules` has nothing to do",
                         "it is about the matrices that lora.load_in_4bit keeps in 4 bits",
                         "set load_in_4bit = true, or leave it out");
    }
    if (!config.lora.quantize_moe_experts) return;
    throw_config_error("`lora.quantize_moe_experts` has nothing to do",
                       "experts are kept in 4 bits beside other matrices, with lora.load_in_4bit",
                       "set load_in_4bit = true, or leave it out");
  }
  const Model& model = config.model;
  if (!config.lora.use_peft) {
    throw_config_error("`lora.load_in_4bit` needs `lora.use_peft`", "weights in 4 bits are not trained, adapters are",
                       "set lora.use_peft = true, or leave it out");
  }
  if (model.model_name_or_path.empty()) {
    throw_config_error("`lora.load_in_4bit` needs `model.model_name_or_path`",
                       "weights in 4 bits are made of those of a model", "name one, or leave it out");
  }
  const bool is_gpt_oss = model.expert_form == ExpertForm::gpt_oss;
  const std::int64_t expert_columns = (is_gpt_oss ? 2 : 1) * (model.num_experts > 0 ? model.moe_intermediate_size : 0);
  const std::array all{Columns{"hidden_size", model.hidden_size, false},
                       Columns{"num_attention_heads * head_dim", model.num_attention_heads * model.head_dim, true},
                       Columns{"intermediate_size", model.has_dense_layers() ? model.intermediate_size : 0, true},
                       Columns{is_gpt_oss ? "2 * moe_intermediate_size" : "moe_intermediate_size",
                               config.lora.quantize_moe_experts ? expert_columns : 0, true, "quantize_moe_experts"}};
  for (const Columns& columns : all) {
    const std::int64_t size = columns.all / (columns.is_split ? config.parallel.tp_size : 1);
    if (size % four_bit_block == 0) continue;
    throw_config_error(fmt::format("`lora.{}` does not fit {} = {}", columns.setting, columns.what, columns.all),
                       fmt::format("rows of {} numbers{} are no whole blocks of {}", size,
                                   columns.is_split ? " on each rank of tp" : "", four_bit_block),
                       fmt::format("lower parallel.tp_size, or leave {} out", columns.setting));
  }
}

}  // namespace sft::config
