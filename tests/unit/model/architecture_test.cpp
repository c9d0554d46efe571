// Parameter names, shapes and places of the three families.

#define BOOST_TEST_MODULE unit_model
#include "sft/model/architecture.hpp"

#include <boost/test/unit_test.hpp>

namespace {

sft::config::Model small() {
  sft::config::Model m;
  m.hidden_size = 32;
  m.num_hidden_layers = 2;
  m.num_attention_heads = 4;
  m.num_key_value_heads = 2;
  m.head_dim = 8;
  m.intermediate_size = 48;
  m.vocab_size = 64;
  return m;
}

std::int64_t count(const sft::config::Model& m) {
  return sft::parallel::ShardMap(sft::model::make_units(m), sft::mesh::Place()).num_parameters();
}

}  // namespace

BOOST_AUTO_TEST_CASE(index_names_the_right_parameters) {
  for (const bool bias : {false, true}) {
    for (const bool qk_norm : {false, true}) {
      auto m = small();
      m.attention_bias = bias;
      m.qk_norm = qk_norm;
      const auto units = sft::model::make_units(m);
      const auto index = sft::model::block_index(m);
      const auto name = [&](int i) { return units[2].parameters.at(static_cast<std::size_t>(i)).name; };
      const std::string prefix = "model.layers.1.";
      BOOST_TEST(name(index.q_weight + 2) == prefix + "self_attn.v_proj.weight");
      BOOST_TEST(name(index.o_weight) == prefix + "self_attn.o_proj.weight");
      BOOST_TEST(name(index.gate_weight + 1) == prefix + "mlp.up_proj.weight");
      BOOST_TEST(name(index.down_weight) == prefix + "mlp.down_proj.weight");
      BOOST_TEST(name(index.input_norm) == prefix + "input_layernorm.weight");
      BOOST_TEST(name(index.post_attention_norm) == prefix + "post_attention_layernorm.weight");
      BOOST_TEST((index.q_bias >= 0) == bias);
      if (bias) BOOST_TEST(name(index.q_bias) == prefix + "self_attn.q_proj.bias");
      BOOST_TEST((index.k_norm >= 0) == qk_norm);
      if (qk_norm) BOOST_TEST(name(index.k_norm) == prefix + "self_attn.k_norm.weight");
    }
  }
}

BOOST_AUTO_TEST_CASE(counts_agree_with_the_configuration) {
  for (const bool flag : {false, true}) {
    auto m = small();
    m.tie_word_embeddings = flag;
    m.attention_bias = !flag;
    m.qk_norm = flag;
    BOOST_TEST(count(m) == m.num_parameters());
  }
}

BOOST_AUTO_TEST_CASE(tied_models_have_no_head_matrix) {
  auto m = small();
  BOOST_TEST(sft::model::make_units(m).back().parameters.at(sft::model::head_weight_index).name == "lm_head.weight");
  m.tie_word_embeddings = true;
  BOOST_TEST(sft::model::make_units(m).back().parameters.size() == 1U);
}
