// SPDX-License-Identifier: Apache-2.0
#include "model/layers/expert_parameters.hpp"

#include <fmt/core.h>

#include <array>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "sft/core/cast.hpp"

namespace sft::model {

namespace {

using parallel::Init;
using parallel::Parameter;
using parallel::ParameterGroup;
using parallel::TpSplit;

/// A weight of all experts as adapters see it.
struct ExpertTarget {
  const char* name;                  ///< in transformers: gate_up_proj
  std::vector<const char*> outputs;  ///< what its columns of the output belong to in the model, equally many to each
  std::int64_t in, out;              ///< `out` of each of them
  bool splits_input;                 ///< tp ranks hold different columns of what it reads, not of what it gives
};

/// Declares parameters of experts below a path, "model.layers.0.mlp.experts": those of all experts one after the
/// other.
class ExpertDeclarations {
 public:
  ExpertDeclarations(UnitBuilder& unit, const config::Model& model, std::string path)
      : unit_(unit), path_(std::move(path)), num_experts_(checked_cast<int>(model.num_experts)) {}

  /// The parameters `names` of each expert, all in one group. Matrices, or biases where `shape` has no columns.
  void add(ParameterGroup& group, std::span<const char* const> names, const Shape& shape) {
    const bool is_matrix = shape.columns > 0;
    for (int expert = 0; expert < num_experts_; ++expert) {
      for (const char* name : names) {
        const std::string full_name = fmt::format("{}.{}.{}", path_, expert, name);
        const bool is_trained = unit_.is_trained(full_name);
        const auto four_bits = unit_.lora().four_bit_form_of_experts();
        Parameter& parameter = add_one(group, expert, full_name, shape,
                                       {.units = {},
                                        .has_gradient = is_trained,
                                        .of_experts = true,
                                        .four_bits = is_matrix && !is_trained ? four_bits : std::nullopt,
                                        .in_float32 = false,
                                        .in_fp8 = is_matrix ? unit_.sends_fp8() : std::nullopt});
        if (!is_matrix) parameter.init = Init::zeros;
      }
    }
  }

  /// The adapters of a weight, if it is to have some. Who has a term of which gradient is as with other adapters.
  void adapt(const ExpertTarget& target, ExpertLinear& layer) {
    const config::Lora& lora = unit_.lora();
    const std::optional<config::AdapterSize> size = lora.expert_adapter_of(fmt::format("{}.{}", path_, target.name));
    if (!size) return;
    ExpertAdapter& adapter = layer.adapter;
    adapter.scale = static_cast<float>(size->scale);
    const config::LoraInit init = lora.init_lora_weights.kind;
    for (int expert = 0; expert < num_experts_; ++expert) {
      const TpSplit split = target.splits_input ? TpSplit::columns : TpSplit::partial;
      Parameter& a = add_factor(adapter.a, expert, target.name, "lora_A", {size->rank, target.in, split});
      a.init = init == config::LoraInit::gaussian ? Init::by_rows : Init::kaiming;
      a.fan_in = target.in;
    }
    for (int expert = 0; expert < num_experts_; ++expert) {
      const TpSplit split = target.splits_input ? TpSplit::partial : TpSplit::rows;
      for (const char* output : target.outputs) {
        Parameter& b = add_factor(adapter.b, expert, output, "lora_B", {target.out, size->rank, split});
        b.init = init == config::LoraInit::linear ? Init::kaiming : Init::zeros;
        b.fan_in = num_experts_ * size->rank;  // PEFT has one matrix of all experts
        b.rate_factor = lora.loraplus_lr_ratio;
      }
    }
  }

 private:
  Parameter& add_one(ParameterGroup& group, int expert, std::string name, const Shape& shape,
                     const parallel::PartUnits& part) {
    const ParameterGroup added = unit_.add(std::move(name), shape, part);
    group = unit_.fuse(group, added);
    Parameter& parameter = unit_.parameter(added);
    parameter.expert = expert;
    parameter.num_experts = num_experts_;
    return parameter;
  }

  Parameter& add_factor(ParameterGroup& group, int expert, const char* module, const char* factor, const Shape& shape) {
    return add_one(group, expert, fmt::format("{}{}.{}.{}.{}.weight", peft_prefix, path_, expert, module, factor),
                   shape, {.units = {}, .has_gradient = true, .of_experts = true});
  }

  UnitBuilder& unit_;
  std::string path_;
  int num_experts_;
};

}  // namespace

ExpertParameters declare_experts(UnitBuilder& unit, const config::Model& m, const std::string& path) {
  const std::int64_t size = m.moe_intermediate_size;
  const bool is_gpt_oss = m.expert_form == config::ExpertForm::gpt_oss;
  const Shape of_router{m.num_experts, m.hidden_size, TpSplit::partial};
  ExpertDeclarations experts(unit, m, path + ".experts");
  ExpertParameters p;
  if (is_gpt_oss) {
    p.router = unit.matrix(path + ".router.weight", of_router);
    p.router_bias = unit.vector(path + ".router.bias", {m.num_experts, 0, TpSplit::partial}, Init::zeros);
    experts.add(p.gate_up.weight, std::array{"gate_up_proj.weight"}, {m.hidden_size, 2 * size, TpSplit::columns});
    experts.add(p.gate_up.bias, std::array{"gate_up_proj.bias"}, {2 * size, 0, TpSplit::rows});
    experts.add(p.down.weight, std::array{"down_proj.weight"}, {size, m.hidden_size, TpSplit::rows});
    experts.add(p.down.bias, std::array{"down_proj.bias"}, {m.hidden_size, 0, TpSplit::none});
  } else {
    p.router = unit.matrix(path + ".gate.weight", of_router);
    if (m.scoring_func == config::ScoringFunc::sigmoid) {
      p.correction = unit.constant(path + ".gate.e_score_correction_bias", m.num_experts);
    }
    experts.add(p.gate_up.weight, std::array{"gate_proj.weight", "up_proj.weight"},
                {size, m.hidden_size, TpSplit::rows});
    experts.add(p.down.weight, std::array{"down_proj.weight"}, {m.hidden_size, size, TpSplit::columns});
  }
  experts.adapt({.name = "gate_up_proj",
                 .outputs = is_gpt_oss ? std::vector{"gate_up_proj"} : std::vector{"gate_proj", "up_proj"},
                 .in = m.hidden_size,
                 .out = is_gpt_oss ? 2 * size : size,
                 .splits_input = false},
                p.gate_up);
  experts.adapt({.name = "down_proj", .outputs = {"down_proj"}, .in = size, .out = m.hidden_size, .splits_input = true},
                p.down);
  return p;
}

}  // namespace sft::model
