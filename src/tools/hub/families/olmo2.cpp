// SPDX-License-Identifier: Apache-2.0
#include "hub/families/family.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

void read_olmo2(const Reading& r) {
  read_silu(r);
  read_attention_bias(r, false);
  r.model.block_norms = config::BlockNorms::olmo2;
  r.model.qk_norm = r.model.qk_norm_all_heads = true;
  read_one_kind_of_layer(r);
  read_rope(r);
}

/// transformers 4 has two kinds of scaling, which it looks for as `type`, with a factor and nothing else.
void rename_older_scaling(nlohmann::ordered_json& object) {
  const auto scaling = object.find("rope_scaling");
  if (scaling == object.end() || !scaling->is_object()) return;
  const std::string kind = scaling->value("rope_type", "");
  if (kind != "linear" && kind != "dynamic") return;
  *scaling = {{"type", kind}, {"factor", nlohmann::ordered_json((*scaling)["factor"])}};
}

void write_olmo2(const Writing& w) {
  rename_older_scaling(w.object);
  write_attention_bias(w);
}

void add_older_fields_of_olmo2(const Writing& w) {
  const bool has_own = holds(w.object, "rope_scaling");
  add_older_rope(w);
  if (!has_own) rename_older_scaling(w.object);
}

}  // namespace

Family olmo2() {
  return {.architecture = "Olmo2ForCausalLM",
          .model_type = "olmo2",
          .rms_norm_eps = 1e-5,
          .pad_token_id = 1,
          .read = read_olmo2,
          .choices = {{part::norms_of_olmo2 | part::qk_norm | part::norm_of_all_heads, part::qkvo_bias}},
          .write = write_olmo2,
          .add_older_fields = add_older_fields_of_olmo2};
}

}  // namespace sft::hub::families
