// SPDX-License-Identifier: Apache-2.0
#include "model/linear/declare.hpp"

#include <optional>
#include <utility>

namespace sft::model {

namespace {

using parallel::Init;
using parallel::Parameter;
using parallel::ParameterGroup;
using parallel::TpSplit;

/// The adapter of the matrix that is number `member` of `layer`, if its module is to have one.
void adapt(UnitBuilder& unit, Linear& layer, int member, std::uint64_t number) {
  const auto& [path, matrix] = layer.members[static_cast<std::size_t>(member)];
  const config::Lora& lora = unit.lora();
  const std::optional<config::AdapterSize> size = lora.adapter_of(path);
  if (!size) return;
  const std::string module = peft_prefix + path;
  const bool splits_input = matrix.split == TpSplit::columns;
  Adapter adapter{.a = {},
                  .b = {},
                  .magnitude = {},
                  .member = member,
                  .splits_input = splits_input,
                  .scale = static_cast<float>(size->scale),
                  .number = number};
  // tp ranks that split x have a term each of the rank-R product in the middle, and so has B of its gradient; those
  // that split y have a term of the product's gradient each, and so has A of its own.
  Shape of_rows = matrix;
  if (splits_input) of_rows.split = TpSplit::partial;
  adapter.a = unit.add(module + ".lora_A.weight",
                       {size->rank, matrix.columns, splits_input ? TpSplit::columns : TpSplit::partial}, {});
  const config::AdapterInit& init = lora.init_lora_weights;
  unit.parameter(adapter.a).init = init.splits_weights()                     ? Init::zeros  // until these are there
                                   : init.kind == config::LoraInit::gaussian ? Init::by_rows
                                                                             : Init::kaiming;
  of_rows.columns = size->rank;
  adapter.b = unit.add(module + ".lora_B.weight", of_rows, {});
  Parameter& b = unit.parameter(adapter.b);
  b.init = init.kind == config::LoraInit::linear ? Init::kaiming : Init::zeros;
  b.rate_factor = lora.loraplus_lr_ratio;
  if (lora.use_dora) {
    of_rows.columns = 0;
    adapter.magnitude = unit.add(module + ".lora_magnitude_vector", of_rows,
                                 {.units = {}, .has_gradient = true, .of_experts = false, .in_float32 = true});
    Parameter& magnitude = unit.parameter(adapter.magnitude);
    magnitude.init = Init::zeros;  // until the weights are there, whose norms it begins with
    magnitude.rate_factor = lora.loraplus_lr_ratio;
  }
  layer.adapters.push_back(adapter);
}

}  // namespace

Linear declare_linear(UnitBuilder& unit, std::vector<LinearMember> members) {
  Linear layer;
  for (const auto& [module, shape] : members) {
    const std::string name = module + ".weight";
    const bool is_trained = unit.is_trained(name);
    const std::optional<FourBitForm> four_bits = unit.lora().four_bit_form();
    const bool is_number = is_trained || !four_bits || unit.lora().skips_four_bits(module);
    const ParameterGroup added = unit.add(name, shape,
                                          {.units = {},
                                           .has_gradient = is_trained,
                                           .of_experts = false,
                                           .four_bits = is_number ? std::nullopt : four_bits,
                                           .in_float32 = false,
                                           .in_fp8 = unit.sends_fp8()});
    layer.weight = unit.fuse(layer.weight, added);
  }
  layer.members = std::move(members);
  return layer;
}

void declare_bias(UnitBuilder& unit, Linear& layer) {
  for (const auto& [module, shape] : layer.members) {
    Shape of_bias = shape;
    of_bias.columns = 0;
    if (shape.split == TpSplit::columns) of_bias.split = TpSplit::none;  // every rank has what its sum over tp gets
    layer.bias = unit.fuse(layer.bias, unit.vector(module + ".bias", of_bias, Init::zeros));
  }
}

std::uint64_t declare_adapters(UnitBuilder& unit, std::vector<Linear>& layers, std::uint64_t number) {
  for (Linear& layer : layers) {
    for (int member = 0; member < static_cast<int>(layer.members.size()); ++member) {
      adapt(unit, layer, member, number++);
    }
  }
  return number;
}

}  // namespace sft::model
