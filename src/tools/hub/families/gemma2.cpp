// SPDX-License-Identifier: Apache-2.0
#include "hub/families/family.hpp"
#include "hub/families/shared/gemma.hpp"
#include "hub/families/shared/reading.hpp"
#include "hub/families/shared/writing.hpp"

namespace sft::hub::families {

namespace {

void read_gemma2(const Reading& r) {
  constexpr std::int64_t period = 2, default_window = 4096;
  read_gemma(r);
  read_alternating_windows(r, period, default_window);
  read_rope(r);
  r.model.attn_logit_softcapping = read_cap(r, "attn_logit_softcapping", 50.0);
  read_logit_cap(r, 30.0);
}

void write_gemma2(const Writing& w) {
  write_gemma(w);
  write_attention_bias(w);
  write_windows(w);
}

}  // namespace

Family gemma2() {
  return {.architecture = "Gemma2ForCausalLM",
          .model_type = "gemma2",
          .num_attention_heads = 8,
          .vocab_size = 256000,
          .num_key_value_heads = 4,
          .head_dim = 256,
          .max_position_embeddings = 8192,
          .tie_word_embeddings = true,
          .pad_token_id = 0,
          .read = read_gemma2,
          .choices = {{part::norms_of_gemma2 | part::gemma | part::some_windows,
                       part::qkvo_bias | part::logit_cap | part::capped_scores}},
          .write = write_gemma2};
}

}  // namespace sft::hub::families
