// SPDX-License-Identifier: Apache-2.0
// Granite 4 without Mamba layers and without experts.
#include <algorithm>

#include "hub/families/family.hpp"
#include "hub/families/shared/granite.hpp"
#include "hub/families/shared/reading.hpp"

namespace sft::hub::families {

namespace {

/// Refuses Mamba-2, and with it folders that do not say their layers' types.
void read_layers(const Reading& r) {
  std::vector<std::string> types = r.fields.texts("layer_types");
  if (types.empty()) types = r.fields.texts("layers_block_type");
  const auto is_attention = [](const std::string& type) { return type == "attention" || type == "full_attention"; };
  if (!types.empty() && std::ranges::all_of(types, is_attention)) return;
  r.fields.refuse("layer_types", "layers with a recurrence (Mamba-2) are not trained", other_model);
}

void read_granitemoehybrid(const Reading& r) {
  read_silu(r);
  read_attention_bias(r, false);
  read_layers(r);
  if (r.fields.integer("num_local_experts", 8) != 0) {
    r.fields.refuse("num_local_experts", "experts of this family are not trained", other_model);
  }
  // Fields of what such a model does not have.
  for (const char* name :
       {"intermediate_size", "num_experts_per_tok", "router_aux_loss_coef", "output_router_logits", "mamba_n_heads",
        "mamba_n_groups", "mamba_d_state", "mamba_d_head", "mamba_d_conv", "mamba_expand", "mamba_chunk_size",
        "mamba_conv_bias", "mamba_proj_bias", "time_step_limit", "normalization_function"}) {
    static_cast<void>(r.fields.value(name));
  }
  read_rope(r);
  const std::string positions = r.fields.text("position_embedding_type", "");
  if (positions != "rope") r.model.no_rope_layers.assign(r.model.num_hidden_layers, 0);
  read_multipliers(r);
}

}  // namespace

Family granitemoehybrid() {
  return {.architecture = "GraniteMoeHybridForCausalLM",
          .model_type = "granitemoehybrid",
          .width_field = "shared_intermediate_size",
          .rules = {{"shared_mlp.input_linear",
                     Cut::rows,
                     {{"mlp.gate_proj", Rows::intermediate}, {"mlp.up_proj", Rows::intermediate}}},
                    {"shared_mlp.output_linear", Cut::rows, {{"mlp.down_proj", Rows::as_stored}}}},
          .read = read_granitemoehybrid};
}

}  // namespace sft::hub::families
