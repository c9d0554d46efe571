// SPDX-License-Identifier: Apache-2.0
// Parameter names, shapes and places of the three families.

#include "sft/model/architecture.hpp"

#include <boost/test/unit_test.hpp>
#include <set>

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
  return sft::parallel::ShardMap(sft::model::make_architecture(m).units, sft::mesh::Place()).num_parameters();
}

}  // namespace

BOOST_AUTO_TEST_CASE(handles_name_the_right_parameters) {
  for (const bool bias : {false, true}) {
    for (const bool qk_norm : {false, true}) {
      auto m = small();
      m.attention_bias = bias;
      m.qk_norm = qk_norm;
      const sft::model::Architecture model = sft::model::make_architecture(m);
      const sft::model::BlockParameters& block = model.parameters.blocks.at(1);
      const auto names = [&](const sft::parallel::ParameterGroup& group) {
        std::string text;
        const auto& parameters = model.units.at(static_cast<std::size_t>(group.unit)).parameters;
        for (int i = group.first; i < group.first + group.count; ++i) {
          const auto& parameter = parameters.at(static_cast<std::size_t>(i));
          BOOST_TEST(parameter.joins_previous == (i > group.first));
          text += parameter.name.substr(std::string("model.layers.1.").size()) + " ";
        }
        return text;
      };
      BOOST_TEST(names(block.qkv.weight) == "self_attn.q_proj.weight self_attn.k_proj.weight self_attn.v_proj.weight ");
      BOOST_TEST(names(block.o.weight) == "self_attn.o_proj.weight ");
      BOOST_TEST(names(block.gate_up.weight) == "mlp.gate_proj.weight mlp.up_proj.weight ");
      BOOST_TEST(names(block.down.weight) == "mlp.down_proj.weight ");
      BOOST_TEST(names(block.input_norm) == "input_layernorm.weight ");
      BOOST_TEST(names(block.post_attention_norm) == "post_attention_layernorm.weight ");
      BOOST_TEST(block.qkv.bias.exists() == bias);
      if (bias)
        BOOST_TEST(names(block.qkv.bias) == "self_attn.q_proj.bias self_attn.k_proj.bias self_attn.v_proj.bias ");
      BOOST_TEST(block.k_norm.exists() == qk_norm);
      if (qk_norm) BOOST_TEST(names(block.k_norm) == "self_attn.k_norm.weight ");
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

BOOST_AUTO_TEST_CASE(gradients_of_norms_are_summed_where_tokens_are_cut) {
  using sft::parallel::TpSplit;
  auto m = small();
  m.qk_norm = m.attention_output_bias = m.mlp_bias = true;
  for (const bool cuts_tokens : {false, true}) {
    const sft::model::Architecture model =
        sft::model::make_architecture(m, sft::model::all_parameters, {}, 1, cuts_tokens);
    for (const sft::parallel::Unit& unit : model.units) {
      for (const sft::parallel::Parameter& p : unit.parameters) {
        const bool is_of_head =
            p.name.find("q_norm") != std::string::npos || p.name.find("k_norm") != std::string::npos;
        const bool is_norm = !is_of_head && p.name.find("norm.weight") != std::string::npos;
        if (is_norm) BOOST_TEST((p.split == (cuts_tokens ? TpSplit::partial : TpSplit::none)), p.name);
        if (is_of_head) BOOST_TEST((p.split == TpSplit::partial), p.name);
        if (p.name.ends_with("o_proj.bias") || p.name.ends_with("down_proj.bias")) {
          BOOST_TEST((p.split == TpSplit::none), p.name);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(frozen_parameters_have_a_list_of_their_own) {
  auto m = small();
  m.qk_norm = true;
  const auto is_norm = [](const std::string& name) { return name.find("norm") != std::string::npos; };
  const sft::model::Architecture all = sft::model::make_architecture(m);
  const sft::model::Architecture norms = sft::model::make_architecture(m, is_norm);
  BOOST_REQUIRE(norms.units.size() == all.units.size());
  BOOST_REQUIRE(norms.frozen_units.size() == all.units.size());
  for (std::size_t u = 0; u < all.units.size(); ++u) {
    BOOST_TEST(norms.units[u].name == all.units[u].name);
    BOOST_TEST(norms.frozen_units[u].name == all.units[u].name);
    BOOST_TEST(all.frozen_units[u].parameters.empty());
    BOOST_TEST(norms.units[u].parameters.size() + norms.frozen_units[u].parameters.size() ==
               all.units[u].parameters.size());
    for (const sft::parallel::Parameter& p : norms.units[u].parameters) BOOST_TEST(is_norm(p.name), p.name);
    for (const sft::parallel::Parameter& p : norms.frozen_units[u].parameters) BOOST_TEST(!is_norm(p.name), p.name);
  }
  const sft::model::BlockParameters& block = norms.parameters.blocks.back();
  BOOST_TEST(!block.qkv.weight.trainable);
  BOOST_TEST(block.qkv.weight.count == 3);
  BOOST_TEST(block.q_norm.trainable);
  BOOST_TEST(norms.units[static_cast<std::size_t>(block.attention_unit)]
                 .parameters[static_cast<std::size_t>(block.k_norm.first)]
                 .name == "model.layers." + std::to_string(m.num_hidden_layers - 1) + ".self_attn.k_norm.weight");
  const auto only_keys = [](const std::string& name) { return name.find("k_proj") != std::string::npos; };
  BOOST_CHECK_THROW(static_cast<void>(sft::model::make_architecture(m, only_keys)), std::logic_error);
}

namespace {

std::vector<std::string> unit_names(const sft::model::Architecture& model) {
  std::vector<std::string> names;
  for (const sft::parallel::Unit& unit : model.units) names.push_back(unit.name);
  return names;
}

}  // namespace

BOOST_AUTO_TEST_CASE(units_hold_blocks_or_parts_of_them) {
  auto m = small();
  m.num_hidden_layers = 3;
  const auto names_of = [&](int blocks_per_unit) {
    return unit_names(sft::model::make_architecture(m, sft::model::all_parameters, {}, blocks_per_unit));
  };
  using Names = std::vector<std::string>;
  BOOST_TEST(names_of(1) == (Names{"model.embed_tokens", "model.layers.0", "model.layers.1", "model.layers.2", "head"}),
             boost::test_tools::per_element());
  BOOST_TEST(names_of(2) == (Names{"model.embed_tokens", "model.layers.0", "model.layers.2", "head"}),
             boost::test_tools::per_element());
  BOOST_TEST(names_of(9) == (Names{"model.embed_tokens", "model.layers.0", "head"}), boost::test_tools::per_element());
  BOOST_TEST(names_of(0) == (Names{"model.embed_tokens", "model.layers.0.self_attn", "model.layers.0.mlp",
                                   "model.layers.1.self_attn", "model.layers.1.mlp", "model.layers.2.self_attn",
                                   "model.layers.2.mlp", "head"}),
             boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_pass_enters_units_in_their_order_and_back) {
  auto m = small();
  m.num_hidden_layers = 2;
  using Units = std::vector<sft::parallel::UnitIndex>;
  for (const bool tied : {false, true}) {
    m.tie_word_embeddings = tied;
    const auto parts = sft::model::make_architecture(m, sft::model::all_parameters, {}, 0).parameters;
    const int table = tied ? 0 : 5;  // what the head multiplies with
    BOOST_TEST(parts.forward_units() == (Units{0, 1, 2, 3, 4, 5, table}), boost::test_tools::per_element());
    BOOST_TEST(parts.forward_backward_units(false) == (Units{0, 1, 2, 3, 4, 5, table, table, 5, 4, 3, 2, 1, 0}),
               boost::test_tools::per_element());
    // The attention of the first block is computed again before its MLP's backward pass.
    BOOST_TEST(parts.forward_backward_units(true) == (Units{0, 1, 2, 3, 4, 5, table, table, 5, 4, 3, 1, 2, 1, 0}),
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(an_adapter_has_one_number_whatever_the_units) {
  auto m = small();
  m.num_hidden_layers = 3;
  sft::config::Lora lora;
  lora.use_peft = true;
  lora.lora_target_modules = {"q_proj", "v_proj", "down_proj"};
  const auto numbers_of = [&](int blocks_per_unit) {
    const auto is_frozen = [](const std::string&) { return false; };
    std::vector<std::uint64_t> numbers;
    for (const auto& block : sft::model::make_architecture(m, is_frozen, lora, blocks_per_unit).parameters.blocks) {
      for (const sft::model::Linear* layer : {&block.qkv, &block.o, &block.gate_up, &block.down}) {
        for (const sft::model::Adapter& adapter : layer->adapters) numbers.push_back(adapter.number);
      }
    }
    return numbers;
  };
  const std::vector<std::uint64_t> numbers = numbers_of(1);
  BOOST_TEST(numbers.size() == 9U);
  BOOST_TEST(std::set<std::uint64_t>(numbers.begin(), numbers.end()).size() == 9U);
  for (const int blocks_per_unit : {0, 2}) {
    BOOST_TEST(numbers_of(blocks_per_unit) == numbers, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(tied_models_have_no_head_matrix) {
  auto m = small();
  const sft::model::Architecture untied = sft::model::make_architecture(m);
  BOOST_TEST(untied.parameters.head.unit() == untied.parameters.head_unit());
  BOOST_TEST(untied.units.back().parameters.back().name == "lm_head.weight");
  m.tie_word_embeddings = true;
  const sft::model::Architecture tied = sft::model::make_architecture(m);
  BOOST_TEST(tied.parameters.head.unit() == tied.parameters.embedding_unit());
  BOOST_TEST(tied.units.back().parameters.size() == 1U);
}
