// SPDX-License-Identifier: Apache-2.0
#include "hub/families/family.hpp"
#include "hub/families/shared/gemma.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

void read_gemma3(const Reading& r) {
  constexpr std::int64_t default_period = 6, default_window = 4096;
  constexpr double default_local_theta = 10000.0;
  read_gemma(r);
  r.model.qk_norm = true;
  const std::int64_t period = r.fields.integer("sliding_window_pattern", default_period);
  static_cast<void>(r.fields.value("_sliding_window_pattern"));  // the same, written and not read
  if (period == 0) r.fields.refuse("sliding_window_pattern", "it counts layers", "correct config.json");
  read_alternating_windows(r, period, default_window);
  read_two_ropes(r, r.fields.number("rope_local_base_freq", default_local_theta));
  static_cast<void>(read_cap(r, "attn_logit_softcapping", 0.0));  // which transformers has and does not use
  read_logit_cap(r, 0.0);
}

void write_gemma3(const Writing& w) {
  write_gemma(w);
  w.object["rope_local_base_freq"] = w.model.rope_local_base_freq;
  write_two_ropes(w);
  write_attention_bias(w);
  write_windows(w);
}

/// transformers 4 knows the base of sliding layers by a field of its own.
void add_older_fields_of_gemma3(const Writing& w) {
  const bool is_missing = holds(w.object, "rope_parameters") && !w.object.contains("rope_local_base_freq");
  if (is_missing && w.model.rope_local_base_freq != 0.0) {
    w.object["rope_local_base_freq"] = w.model.rope_local_base_freq;
  }
  add_older_rope(w);
}

}  // namespace

Family gemma3() {
  return {.architecture = "Gemma3ForCausalLM",
          .model_type = "gemma3_text",
          .num_attention_heads = 8,
          .vocab_size = 262208,
          .num_key_value_heads = 4,
          .head_dim = 256,
          .max_position_embeddings = 131072,
          .rope_theta = 1000000.0,
          .tie_word_embeddings = true,
          .pad_token_id = 0,
          .read = read_gemma3,
          .choices = {{part::norms_of_gemma2 | part::gemma | part::qk_norm | part::some_windows | part::local_rope,
                       part::qkvo_bias | part::logit_cap}},
          .write = write_gemma3,
          .add_older_fields = add_older_fields_of_gemma3};
}

}  // namespace sft::hub::families
