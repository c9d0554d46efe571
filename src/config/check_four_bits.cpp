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
};

}  // namespace

void check_four_bits(const Config& config) {
  if (!config.lora.load_in_4bit) return;
  const Model& model = config.model;
  if (!config.lora.use_peft) {
    throw_config_error("`lora.load_in_4bit` needs `lora.use_peft`", "weights in 4 bits are not trained, adapters are",
                       "set lora.use_peft = true, or leave it out");
  }
  if (model.model_name_or_path.empty()) {
    throw_config_error("`lora.load_in_4bit` needs `model.model_name_or_path`",
                       "weights in 4 bits are made of those of a model", "name one, or leave it out");
  }
  const std::array all{Columns{"hidden_size", model.hidden_size, false},
                       Columns{"num_attention_heads * head_dim", model.num_attention_heads * model.head_dim, true},
                       Columns{"intermediate_size", model.has_dense_layers() ? model.intermediate_size : 0, true}};
  for (const Columns& columns : all) {
    const std::int64_t size = columns.all / (columns.is_split ? config.parallel.tp_size : 1);
    if (size % four_bit_block == 0) continue;
    throw_config_error(fmt::format("`lora.load_in_4bit` does not fit {} = {}", columns.what, columns.all),
                       fmt::format("rows of {} numbers{} are no whole blocks of {}", size,
                                   columns.is_split ? " on each rank of tp" : "", four_bit_block),
                       "lower parallel.tp_size, or leave load_in_4bit out");
  }
}

}  // namespace sft::config
