// SPDX-License-Identifier: Apache-2.0
#include "support/awkward_data.hpp"

#include <algorithm>
#include <array>
#include <random>

namespace sft::test {
namespace {

config::Model small_model() {
  config::Model model;
  model.hidden_size = 40;
  model.num_hidden_layers = 2;
  model.num_attention_heads = 4;
  model.num_key_value_heads = 2;
  model.head_dim = 8;
  model.intermediate_size = 48;
  model.vocab_size = small_vocab_size;
  model.rms_norm_eps = 1e-5;
  model.initializer_range = 0.15;  // attention far from uniform
  model.init_seed = 7;
  return model;
}

/// Draws that are the same with every standard library.
class Draw {
 public:
  explicit Draw(std::uint64_t seed) : engine_(seed) {}
  std::int64_t below(std::int64_t bound) { return static_cast<std::int64_t>(engine_() % bound); }
  template <class T, std::size_t size>
  T one_of(const std::array<T, size>& choices) {
    return choices[below(size)];
  }

 private:
  std::mt19937_64 engine_;
};

enum class Kind { mixed, mostly_padding, no_document, no_target, one_document };
constexpr std::array kinds{Kind::mixed,     Kind::mostly_padding, Kind::mixed,      Kind::one_document,
                           Kind::no_target, Kind::mixed,          Kind::no_document};

std::vector<std::int32_t> draw_document_lengths(Kind kind, std::int64_t max_length, Draw& draw) {
  const auto whole = static_cast<std::int32_t>(max_length);
  if (kind == Kind::no_document) return {};
  if (kind == Kind::one_document) return {whole};
  if (kind == Kind::mostly_padding) return {whole / 16, 1};
  std::vector<std::int32_t> lengths;
  for (std::int32_t left = whole - draw.one_of(std::array{0, 0, 1, 7}); left > 0; left -= lengths.back()) {
    lengths.push_back(std::min(left, draw.one_of(std::array{1, 2, 3, 5, 17, 33, whole / 3 + 1})));
  }
  return lengths;
}

}  // namespace

config::Model small_llama() {
  config::Model model = small_model();
  model.tie_word_embeddings = true;
  model.rope_scaling.rope_type = config::RopeType::llama3;
  model.rope_scaling.factor = 8.0;
  model.rope_scaling.original_max_position_embeddings = 64;
  return model;
}

config::Model small_qwen2() {
  config::Model model = small_model();
  model.num_attention_heads = 6;
  model.attention_bias = true;
  model.rope_theta = 1e6;
  return model;
}

config::Model small_qwen3() {
  config::Model model = small_model();
  model.num_hidden_layers = 3;
  model.num_key_value_heads = 1;
  model.head_dim = 16;
  model.qk_norm = true;
  model.tie_word_embeddings = true;
  return model;
}

config::Model small_gemma3() {
  config::Model model = small_model();
  model.num_key_value_heads = 1;
  model.head_dim = 16;
  model.qk_norm = true;
  model.tie_word_embeddings = true;
  model.block_norms = config::BlockNorms::gemma2;
  model.hidden_act = config::Activation::gelu_pytorch_tanh;
  model.zero_centered_norms = true;
  model.embedding_multiplier = 6.3245553203367586;  // sqrt(hidden_size)
  model.rounds_embedding_multiplier = true;
  model.sliding_window = 7;
  model.layer_types = {"sliding_attention", "full_attention"};
  model.rope_local_base_freq = 100.0;
  return model;
}

config::Model small_olmo2() {
  config::Model model = small_model();
  model.block_norms = config::BlockNorms::olmo2;
  model.qk_norm = model.qk_norm_all_heads = true;
  return model;
}

std::vector<rows::Row> make_awkward_rows(std::int64_t num_rows, std::int64_t max_length, std::uint64_t seed) {
  Draw draw(seed);
  std::vector<rows::Row> rows;
  for (std::int64_t index = 0; index < num_rows; ++index) {
    const Kind kind = kinds[(static_cast<std::uint64_t>(index) + seed) % kinds.size()];
    rows::Row row;
    row.tokens.resize(max_length);
    row.loss_weight.resize(max_length);
    row.document_lengths = draw_document_lengths(kind, max_length, draw);
    std::int64_t position = 0;
    for (const std::int32_t length : row.document_lengths) {
      for (const std::int64_t end = position + length; position < end; ++position) {
        row.tokens[position] = static_cast<std::int32_t>(draw.below(small_vocab_size));
        const float weight = draw.one_of(std::array{0.0f, 0.0f, 1.0f, 1.0f, 1.0f, 0.5f});
        row.loss_weight[position] = kind == Kind::no_target ? 0.0f : weight;
      }
    }
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace sft::test
