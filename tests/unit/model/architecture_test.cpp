// SPDX-License-Identifier: Apache-2.0
// Parameter names, shapes and places of the three families.

#include "sft/model/architecture.hpp"

#include <boost/test/unit_test.hpp>
#include <regex>
#include <set>

#include "sft/model/flops.hpp"
#include "sft/model/layers/attention.hpp"
#include "sft/model/layers/dense_mlp.hpp"
#include "sft/model/layers/expert_mlp.hpp"
#include "sft/model/linear/adapter_names.hpp"
#include "sft/parallel/sharding_policy.hpp"

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
  std::int64_t number = 0;
  for (const sft::parallel::PartUnits& part : sft::model::make_architecture(m).parts) {
    number += sft::parallel::ShardMap(part.units, sft::mesh::Place(), sft::AxisSet{}).num_parameters();
  }
  return number;
}

const sft::model::Attention& attention_of(const sft::model::BlockParameters& block) {
  return dynamic_cast<const sft::model::Attention&>(*block.sublayers.front().layer);
}

}  // namespace

/// tp cuts the experts of a layer one by one, and what a rank has of all is one matrix.
BOOST_AUTO_TEST_CASE(matrices_of_experts_lie_one_behind_the_other) {
  auto m = small();
  m.num_experts = 3;
  m.num_experts_per_tok = 2;
  m.moe_intermediate_size = 16;
  m.mlp_only_layers = {0};
  const sft::model::Architecture model = sft::model::make_architecture(m);
  BOOST_TEST(dynamic_cast<const sft::model::DenseMlp*>(model.parameters.blocks[0].sublayers.back().layer.get()) !=
             nullptr);
  BOOST_TEST(dynamic_cast<const sft::model::ExpertMlp*>(model.parameters.blocks[1].sublayers.back().layer.get()) !=
             nullptr);
  BOOST_TEST(count(m) == sft::model::weight_counts(m).all);
  const auto place = sft::mesh::Place(sft::mesh::Layout{{sft::Axis::tp, 2}}, 1);
  const sft::parallel::PartUnits& part = model.parts[model.parts.last()];
  BOOST_TEST(part.of_experts);
  const sft::parallel::ShardMap map(part.units, place, sft::expert_fsdp_axes);
  std::int64_t end = -1, num_of_experts = 0, num_joined = 0;
  for (const sft::parallel::Parameter& parameter :
       map.unit(model.parameters.blocks[1].sublayers.back().unit).parameters) {
    const bool is_down = parameter.name.ends_with("down_proj.weight");
    BOOST_TEST(parameter.name.find(".experts.") != std::string::npos);
    BOOST_TEST(parameter.num_experts == 3);
    ++num_of_experts;
    BOOST_TEST((parameter.row_begin == (is_down ? 0 : 8) && parameter.column_begin == (is_down ? 8 : 0)));
    if (parameter.joins_previous) ++num_joined;
    BOOST_TEST((!parameter.joins_previous || parameter.unit_offset == end));
    end = parameter.unit_offset + parameter.local_elements();
  }
  BOOST_TEST((num_of_experts == 9 && num_joined == 5 + 2));
}

/// The correction of a router is a part of its own, which nothing trains; the MLP beside experts is of the model's
/// part.
BOOST_AUTO_TEST_CASE(an_mlp_beside_experts_and_the_correction_of_their_router) {
  auto m = small();
  m.num_experts = 4;
  m.num_experts_per_tok = 2;
  m.moe_intermediate_size = 16;
  m.mlp_only_layers = {0};
  m.scoring_func = sft::config::ScoringFunc::sigmoid;
  m.n_shared_experts = 2;
  BOOST_TEST(count(m) == sft::model::weight_counts(m).all);
  sft::config::Lora lora;
  lora.use_peft = true;
  for (const bool has_adapters : {false, true}) {
    const auto is_trained = [=](const std::string&) { return !has_adapters; };
    const sft::model::Architecture model =
        sft::model::make_architecture(m, is_trained, has_adapters ? lora : sft::config::Lora{});
    int num_constants = 0;
    std::set<std::string> shared;
    for (const sft::parallel::PartUnits& part : model.parts) {
      for (const sft::parallel::Unit& unit : part.units) {
        for (const sft::parallel::Parameter& p : unit.parameters) {
          if (p.name.find(".shared_experts.") != std::string::npos) {
            shared.insert(p.name.substr(p.name.find("shared_experts")));
            BOOST_TEST(!part.of_experts);
          }
          BOOST_TEST(part.in_float32 == (p.name == "model.layers.1.mlp.gate.e_score_correction_bias"), p.name);
          if (part.in_float32) BOOST_TEST((++num_constants == 1 && !part.has_gradient && p.rows == 4));
        }
      }
    }
    BOOST_TEST(num_constants == 1);
    BOOST_TEST(shared.contains("shared_experts.gate_proj.weight"));
    BOOST_TEST(shared.size() == (has_adapters ? 9U : 3U));
    const auto parts = sft::parallel::make_parts(model.parts, {}, {}, sft::DType::bf16);
    for (const sft::parallel::Part& part : parts) {
      const bool is_constant = !part.has_gradient && part.gathered == sft::DType::float32;
      BOOST_TEST(is_constant == (part.stored == sft::DType::float32 && !part.has_gradient));
    }
  }
}

/// The patterns are those of get_decay_parameter_names in the Trainer of transformers 5.23.
BOOST_AUTO_TEST_CASE(weights_decay_by_what_they_are_called) {
  const std::regex excluded(R"(bias|layernorm|rmsnorm|(?:^|\.)norm(?:$|\.)|_norm(?:$|\.))");
  auto gpt_oss = small(), gemma = small(), olmo = small();
  gpt_oss.attention_bias = gpt_oss.attention_output_bias = gpt_oss.attention_sinks = true;
  gpt_oss.num_experts = 3;
  gpt_oss.num_experts_per_tok = 2;
  gpt_oss.moe_intermediate_size = 16;
  gpt_oss.expert_form = sft::config::ExpertForm::gpt_oss;
  BOOST_TEST(count(gpt_oss) == sft::model::weight_counts(gpt_oss).all);
  gemma.block_norms = sft::config::BlockNorms::gemma2;
  gemma.qk_norm = true;
  olmo.block_norms = sft::config::BlockNorms::olmo2;
  olmo.mlp_bias = olmo.qk_norm = olmo.qk_norm_all_heads = true;
  std::set<std::string> vectors_that_decay;
  for (const auto& m : {gpt_oss, gemma, olmo}) {
    const sft::model::Architecture model = sft::model::make_architecture(m);
    for (const sft::parallel::PartUnits& part : model.parts) {
      for (const sft::parallel::Unit& unit : part.units) {
        for (const sft::parallel::Parameter& p : unit.parameters) {
          BOOST_TEST(p.decays() == !std::regex_search(p.name, excluded), p.name);
          if (p.is_vector() && p.decays()) vectors_that_decay.insert(p.name.substr(p.name.rfind('.') + 1));
        }
      }
    }
  }
  BOOST_TEST((vectors_that_decay == std::set<std::string>{"sinks"}));
}

BOOST_AUTO_TEST_CASE(handles_name_the_right_parameters) {
  for (const bool bias : {false, true}) {
    for (const bool qk_norm : {false, true}) {
      auto m = small();
      m.attention_bias = bias;
      m.qk_norm = qk_norm;
      const sft::model::Architecture model = sft::model::make_architecture(m);
      const sft::model::BlockParameters& block = model.parameters.blocks[1];
      const sft::model::Attention& attention = attention_of(block);
      const std::vector<sft::model::Linear>& mlp = block.sublayers.back().layer->linear_layers();
      const auto names = [&](const sft::parallel::ParameterGroup& group) {
        std::string text;
        const auto& parameters = model.parts[group.part].units.at(static_cast<std::size_t>(group.unit)).parameters;
        for (int i = group.first; i < group.first + group.count; ++i) {
          const auto& parameter = parameters.at(static_cast<std::size_t>(i));
          BOOST_TEST(parameter.joins_previous == (i > group.first));
          text += parameter.name.substr(std::string("model.layers.1.").size()) + " ";
        }
        return text;
      };
      BOOST_TEST(names(attention.qkv().weight) ==
                 "self_attn.q_proj.weight self_attn.k_proj.weight self_attn.v_proj.weight ");
      BOOST_TEST(names(attention.o().weight) == "self_attn.o_proj.weight ");
      BOOST_TEST(names(mlp.front().weight) == "mlp.gate_proj.weight mlp.up_proj.weight ");
      BOOST_TEST(names(mlp.back().weight) == "mlp.down_proj.weight ");
      BOOST_TEST(names(block.sublayers.front().norms.input) == "input_layernorm.weight ");
      BOOST_TEST(names(block.sublayers.back().norms.input) == "post_attention_layernorm.weight ");
      BOOST_TEST(attention.qkv().bias.exists() == bias);
      if (bias)
        BOOST_TEST(names(attention.qkv().bias) == "self_attn.q_proj.bias self_attn.k_proj.bias self_attn.v_proj.bias ");
      BOOST_TEST(attention.parameters().k_norm.exists() == qk_norm);
      if (qk_norm) BOOST_TEST(names(attention.parameters().k_norm) == "self_attn.k_norm.weight ");
    }
  }
}

BOOST_AUTO_TEST_CASE(families_place_and_name_norms_their_own_way) {
  struct Norms {
    sft::config::BlockNorms norms;
    std::set<std::string> names;
  };
  const std::vector<Norms> families{
      {sft::config::BlockNorms::pre, {"input_layernorm", "post_attention_layernorm"}},
      {sft::config::BlockNorms::olmo2, {"post_attention_layernorm", "post_feedforward_layernorm"}},
      {sft::config::BlockNorms::gemma2,
       {"input_layernorm", "post_attention_layernorm", "pre_feedforward_layernorm", "post_feedforward_layernorm"}}};
  for (const Norms& family : families) {
    auto m = small();
    m.block_norms = family.norms;
    m.qk_norm = true;
    m.qk_norm_all_heads = family.norms == sft::config::BlockNorms::olmo2;
    BOOST_TEST(count(m) == sft::model::weight_counts(m).all);
    std::set<std::string> names;
    const sft::model::Architecture model = sft::model::make_architecture(m);
    for (const sft::parallel::Parameter& parameter : model.parts.front().units.at(1).parameters) {
      const std::string prefix = "model.layers.0.", suffix = ".weight";
      const std::string name =
          parameter.name.substr(prefix.size(), parameter.name.size() - prefix.size() - suffix.size());
      if (name.find("layernorm") != std::string::npos) names.insert(name);
      if (name == "self_attn.q_norm") BOOST_TEST(parameter.rows == (m.qk_norm_all_heads ? 32 : 8));
    }
    BOOST_TEST(names == family.names, boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(norms_of_what_a_block_adds_are_those_of_glm4) {
  auto m = small();
  m.block_norms = sft::config::BlockNorms::glm4;
  BOOST_TEST(count(m) == sft::model::weight_counts(m).all);
  std::set<std::string> names;
  const sft::model::Architecture model = sft::model::make_architecture(m);
  for (const sft::parallel::Unit& unit : model.parts.front().units) {
    for (const sft::parallel::Parameter& parameter : unit.parameters) names.insert(parameter.name);
  }
  for (const char* name : {"post_self_attn_layernorm", "post_mlp_layernorm"}) {
    BOOST_TEST(names.contains(std::string("model.layers.1.") + name + ".weight"));
  }
}

BOOST_AUTO_TEST_CASE(counts_agree_with_the_configuration) {
  for (const bool flag : {false, true}) {
    auto m = small();
    m.tie_word_embeddings = flag;
    m.attention_bias = !flag;
    m.qk_norm = flag;
    BOOST_TEST(count(m) == sft::model::weight_counts(m).all);
  }
}

BOOST_AUTO_TEST_CASE(gradients_of_norms_are_summed_where_tokens_are_cut) {
  using sft::parallel::TpSplit;
  auto m = small();
  m.qk_norm = m.attention_output_bias = m.mlp_bias = true;
  for (const bool cuts_tokens : {false, true}) {
    const sft::model::Architecture model =
        sft::model::make_architecture(m, sft::model::all_parameters, {}, 1, cuts_tokens);
    for (const sft::parallel::Unit& unit : model.parts.front().units) {
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

BOOST_AUTO_TEST_CASE(parameters_that_are_not_trained_are_a_part_of_their_own) {
  using sft::parallel::PartUnits;
  auto m = small();
  m.qk_norm = true;
  const auto is_norm = [](const std::string& name) { return name.find("norm") != std::string::npos; };
  const sft::model::Architecture all = sft::model::make_architecture(m);
  const sft::model::Architecture norms = sft::model::make_architecture(m, is_norm);
  BOOST_TEST_REQUIRE(all.parts.size() == 1);
  BOOST_TEST(all.parts.front().has_gradient);
  BOOST_TEST_REQUIRE(norms.parts.size() == 2);
  BOOST_TEST(norms.parts[0].has_gradient != norms.parts[1].has_gradient);
  std::vector<std::size_t> num_found(all.parts.front().units.size());
  for (const PartUnits& part : norms.parts) {
    BOOST_TEST_REQUIRE(part.units.size() == num_found.size());
    for (std::size_t u = 0; u < num_found.size(); ++u) {
      BOOST_TEST(part.units[u].name == all.parts.front().units[u].name);
      num_found[u] += part.units[u].parameters.size();
      for (const sft::parallel::Parameter& p : part.units[u].parameters) {
        BOOST_TEST(is_norm(p.name) == part.has_gradient, p.name);
      }
    }
  }
  for (std::size_t u = 0; u < num_found.size(); ++u) {
    BOOST_TEST(num_found[u] == all.parts.front().units[u].parameters.size());
  }
  const sft::model::BlockParameters& block = norms.parameters.blocks.back();
  const sft::model::Attention& attention = attention_of(block);
  const sft::model::AttentionParameters& of_heads = attention.parameters();
  BOOST_TEST(!norms.parts[attention.qkv().weight.part].has_gradient);
  BOOST_TEST(attention.qkv().weight.count == 3);
  BOOST_TEST(norms.parts[of_heads.q_norm.part].has_gradient);
  BOOST_TEST(norms.parts[of_heads.k_norm.part]
                 .units[static_cast<std::size_t>(block.sublayers.front().unit)]
                 .parameters[static_cast<std::size_t>(of_heads.k_norm.first)]
                 .name == "model.layers." + std::to_string(m.num_hidden_layers - 1) + ".self_attn.k_norm.weight");
  const auto only_keys = [](const std::string& name) { return name.find("k_proj") != std::string::npos; };
  BOOST_CHECK_THROW(static_cast<void>(sft::model::make_architecture(m, only_keys)), std::logic_error);
}

namespace {

std::vector<std::string> unit_names(const sft::model::Architecture& model) {
  std::vector<std::string> names;
  for (const sft::parallel::Unit& unit : model.parts.front().units) names.push_back(unit.name);
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
    const auto parameters = sft::model::make_architecture(m, sft::model::all_parameters, {}, 0).parameters;
    const sft::parallel::UnitIndex table =
        tied ? sft::parallel::UnitIndex(0) : sft::parallel::UnitIndex(5);  // what the head multiplies with
    BOOST_TEST(parameters.forward_units() == (Units{0, 1, 2, 3, 4, 5, table}), boost::test_tools::per_element());
    BOOST_TEST(parameters.forward_backward_units(false) == (Units{0, 1, 2, 3, 4, 5, table, table, 5, 4, 3, 2, 1, 0}),
               boost::test_tools::per_element());
    // The attention of the first block is computed again before its MLP's backward pass.
    BOOST_TEST(parameters.forward_backward_units(true) == (Units{0, 1, 2, 3, 4, 5, table, table, 5, 4, 3, 1, 2, 1, 0}),
               boost::test_tools::per_element());
  }
}

BOOST_AUTO_TEST_CASE(equal_runs_share_their_architecture) {
  sft::config::Config config;
  config.model = small();
  config.data.train_files = {"rows.h5"};
  const auto shared = [](const sft::config::Config& of) {
    return sft::model::shared_architecture(sft::config::validate(of, 1));
  };
  const auto first = shared(config);
  auto other = config;
  other.train.per_device_train_batch_size = 4;  // says nothing of the model
  BOOST_TEST(shared(other) == first);
  other.model.qk_norm = true;
  BOOST_TEST(shared(other) != first);
  BOOST_TEST(attention_of(shared(other)->parameters.blocks.front()).parameters().q_norm.exists());
  BOOST_TEST(!attention_of(first->parameters.blocks.front()).parameters().q_norm.exists());
  other = config;
  other.parallel.blocks_per_unit = 2;
  BOOST_TEST(shared(other)->parts.front().units.size() < first->parts.front().units.size());
  other = config;
  other.lora.use_peft = true;
  BOOST_TEST(shared(other)->parts.size() == 2);
  BOOST_TEST(shared(config) == first);
}

BOOST_AUTO_TEST_CASE(what_products_in_fp8_read_is_in_parts_of_its_own) {
  sft::config::Config config;
  config.model = small();
  config.data.train_files = {"rows.h5"};
  const auto parts_of = [&](sft::config::Fp8 fp8, int zero_stage, int num_ranks) -> const auto& {
    config.train.fp8 = fp8;
    config.parallel.zero_stage = zero_stage;
    config.parallel.dp_shard_size = num_ranks;
    static std::shared_ptr<const sft::model::Architecture> kept;
    kept = sft::model::shared_architecture(sft::config::validate(config, num_ranks));
    return kept->parts;
  };
  using sft::config::Fp8;
  BOOST_TEST(parts_of(Fp8::none, 3, 2).size() == 1);
  BOOST_TEST(parts_of(Fp8::tensorwise, 0, 2).size() == 1);
  BOOST_TEST(parts_of(Fp8::tensorwise, 3, 1).size() == 1);
  using sft::ops::Fp8Tiles;
  for (const auto& [fp8, tiles] :
       {std::pair(Fp8::tensorwise, Fp8Tiles::whole), std::pair(Fp8::blockwise, Fp8Tiles::blocks)}) {
    const auto& parts = parts_of(fp8, 3, 2);
    BOOST_TEST_REQUIRE(parts.size() == 2);
    for (const sft::parallel::PartUnits& part : parts) {
      for (const sft::parallel::Unit& unit : part.units) {
        for (const sft::parallel::Parameter& p : unit.parameters) {
          const bool is_linear = p.name.find("_proj.weight") != std::string::npos;
          BOOST_TEST((part.in_fp8 == (is_linear ? std::optional(tiles) : std::nullopt)), p.name);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(modules_that_are_left_out_of_4_bits_are_among_the_other_numbers) {
  auto m = small();
  m.num_hidden_layers = 2;
  sft::config::Lora lora;
  lora.use_peft = lora.load_in_4bit = true;
  lora.llm_int8_skip_modules = {"model.layers.0.mlp", "model.layers.1.self_attn.o_proj"};
  const auto trains_none = [](const std::string&) { return false; };
  const sft::model::Architecture made = sft::model::make_architecture(m, trains_none, lora, 1);
  BOOST_TEST(made.parts.size() == 3U);  // numbers, codes, adapters
  std::size_t num_codes = 0;
  for (const sft::parallel::PartUnits& part : made.parts) {
    for (const auto& unit : part.units) {
      for (const sft::parallel::Parameter& p : unit.parameters) {
        const bool is_matrix = p.name.ends_with("_proj.weight");
        const bool is_skipped =
            p.name.starts_with("model.layers.0.mlp.") || p.name == "model.layers.1.self_attn.o_proj.weight";
        BOOST_TEST(part.four_bits.has_value() == (is_matrix && !is_skipped), p.name);
        num_codes += part.four_bits.has_value() ? 1 : 0;
      }
    }
  }
  BOOST_TEST(num_codes == 14U - 3U - 1U);
}

BOOST_AUTO_TEST_CASE(matrices_of_experts_in_4_bits_are_in_a_part_of_their_own) {
  using sft::config::ExpertForm;
  for (const ExpertForm form : {ExpertForm::swiglu, ExpertForm::gpt_oss}) {
    auto m = small();
    m.num_experts = 2;
    m.num_experts_per_tok = 1;
    m.moe_intermediate_size = 64;
    m.expert_form = form;
    sft::config::Lora lora;
    lora.use_peft = lora.load_in_4bit = true;
    for (const bool is_wanted : {false, true}) {
      lora.quantize_moe_experts = is_wanted;
      const auto trains_none = [](const std::string&) { return false; };
      const sft::model::Architecture made = sft::model::make_architecture(m, trains_none, lora, 1);
      for (const sft::parallel::PartUnits& part : made.parts) {
        for (const auto& unit : part.units) {
          for (const sft::parallel::Parameter& p : unit.parameters) {
            if (p.num_experts == 0) continue;
            BOOST_TEST(part.of_experts);
            BOOST_TEST(part.four_bits.has_value() == (is_wanted && p.columns > 0), p.name);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(an_adapter_has_one_number_whatever_the_units) {
  auto m = small();
  m.num_hidden_layers = 3;
  sft::config::Lora lora;
  lora.use_peft = true;
  lora.lora_target_modules = {"q_proj", "v_proj", "down_proj"};
  const auto numbers_of = [&](int blocks_per_unit) {
    const auto trains_none = [](const std::string&) { return false; };
    std::vector<std::uint64_t> numbers;
    for (const auto& block : sft::model::make_architecture(m, trains_none, lora, blocks_per_unit).parameters.blocks) {
      for (const sft::model::BlockSublayer& sublayer : block.sublayers) {
        for (const sft::model::Linear& layer : sublayer.layer->linear_layers()) {
          for (const sft::model::Adapter& adapter : layer.adapters) numbers.push_back(adapter.number);
        }
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
  BOOST_TEST(untied.parts.front().units.back().parameters.back().name == "lm_head.weight");
  m.tie_word_embeddings = true;
  const sft::model::Architecture tied = sft::model::make_architecture(m);
  BOOST_TEST(tied.parameters.head.unit() == tied.parameters.embedding_unit());
  BOOST_TEST(tied.parts.front().units.back().parameters.size() == 1U);
}

/// Whatever the precision, as PEFT keeps them.
BOOST_AUTO_TEST_CASE(magnitudes_are_float32) {
  sft::config::Lora lora;
  lora.use_peft = lora.use_dora = true;
  const auto trains_none = [](const std::string&) { return false; };
  const sft::model::Architecture model = sft::model::make_architecture(small(), trains_none, lora);
  BOOST_REQUIRE(model.parts.size() == 3);
  using sft::parallel::MasterWeights;
  for (const MasterWeights master : {MasterWeights::in_memory, MasterWeights::in_file, MasterWeights::none}) {
    const auto parts = sft::parallel::make_parts(model.parts, {}, {}, sft::DType::bf16, master);
    std::size_t num_magnitudes = 0;
    for (const sft::parallel::PartIndex index : parts.indices()) {
      const sft::parallel::Part& part = parts[index];
      for (const sft::parallel::Unit& unit : part.shard_map.units()) {
        for (const sft::parallel::Parameter& p : unit.parameters) {
          const bool is_magnitude = p.name.ends_with(".lora_magnitude_vector");
          num_magnitudes += is_magnitude ? 1 : 0;
          BOOST_TEST(part.in_float32 == is_magnitude, p.name);
          BOOST_TEST((part.gathered == sft::DType::float32) == is_magnitude, p.name);
          if (is_magnitude) BOOST_TEST((part.stored == sft::DType::float32 && part.has_gradient && !part.is_in_file));
        }
      }
    }
    BOOST_TEST(num_magnitudes == 2U * 7U);
  }
}

BOOST_AUTO_TEST_CASE(an_adapter_names_its_weight) {
  using sft::model::is_factor_of_adapter;
  const std::string module = "base_model.model.model.layers.0.mlp.up_proj";
  BOOST_TEST(is_factor_of_adapter(module + ".lora_A.weight"));
  BOOST_TEST(is_factor_of_adapter(module + ".lora_B.weight"));
  BOOST_TEST(!is_factor_of_adapter(module + ".lora_magnitude_vector"));
  BOOST_TEST(!is_factor_of_adapter("base_model.model.lm_head.weight"));
  BOOST_TEST(!sft::model::adapter_of_a(module + ".lora_B.weight"));
  const auto names = sft::model::adapter_of_a("base_model.model.model.layers.0.mlp.up_proj.lora_A.weight");
  BOOST_REQUIRE(names);
  BOOST_TEST(names->module == "model.layers.0.mlp.up_proj");
  BOOST_TEST(names->weight == "model.layers.0.mlp.up_proj.weight");
  BOOST_TEST(names->b == "base_model.model.model.layers.0.mlp.up_proj.lora_B.weight");
}

BOOST_AUTO_TEST_CASE(adapters_have_ranks_of_their_own_beside_whole_modules) {
  using sft::config::LoraInit;
  using sft::parallel::Init;
  sft::config::Lora lora;
  lora.use_peft = true;
  lora.rank_pattern = {{"layers.1.mlp.(up|gate)_proj", 3}, {"up_proj", 9}};
  lora.alpha_pattern = {{"o_proj", 8}};
  lora.layers_to_transform = {1};
  lora.modules_to_save = {"lm_head", "input_layernorm"};
  lora.loraplus_lr_ratio = 5.0;
  lora.init_lora_weights.kind = LoraInit::gaussian;
  const auto trains_none = [](const std::string&) { return false; };
  const sft::model::Architecture model = sft::model::make_architecture(small(), trains_none, lora);
  BOOST_REQUIRE(model.parts.size() == 2);
  const auto& blocks = model.parameters.blocks;
  BOOST_TEST(attention_of(blocks[0]).qkv().adapters.empty());
  BOOST_TEST(attention_of(blocks[1]).qkv().adapters.size() == 3U);
  BOOST_TEST(attention_of(blocks[1]).o().adapters.front().scale == 8.0F / 16.0F);
  BOOST_TEST(attention_of(blocks[1]).qkv().adapters.front().scale == 32.0F / 16.0F);
  std::set<std::string> copies;
  for (const sft::parallel::PartUnits& part : model.parts) {
    for (const sft::parallel::Unit& unit : part.units) {
      for (const sft::parallel::Parameter& p : unit.parameters) {
        const bool is_a = p.name.ends_with("lora_A.weight"), is_b = p.name.ends_with("lora_B.weight");
        BOOST_TEST(part.has_gradient == (is_a || is_b || !p.copy_of.empty()), p.name);
        const bool is_of_three =
            p.name.find("up_proj") != std::string::npos || p.name.find("gate") != std::string::npos;
        if (is_a || is_b) BOOST_TEST((is_a ? p.rows : p.columns) == (is_of_three ? 3 : 16), p.name);
        if (is_a) BOOST_TEST((p.init == Init::by_rows && p.rate_factor == 1.0), p.name);
        if (is_b) BOOST_TEST((p.init == Init::zeros && p.rate_factor == 5.0), p.name);
        if (p.copy_of.empty()) continue;
        BOOST_TEST(p.name == "base_model.model." + p.copy_of);
        BOOST_TEST(p.rate_factor == (p.is_vector() ? 5.0 : 1.0), p.name);
        copies.insert(p.copy_of);
      }
    }
  }
  BOOST_TEST(copies == (std::set<std::string>{"lm_head.weight", "model.layers.0.input_layernorm.weight",
                                              "model.layers.1.input_layernorm.weight"}),
             boost::test_tools::per_element());
}
