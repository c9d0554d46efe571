// SPDX-License-Identifier: Apache-2.0
#include "model/unit_builder.hpp"

#include <string_view>
#include <utility>

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"

namespace sft::model {

using parallel::Init;
using parallel::Parameter;
using parallel::ParameterGroup;
using parallel::PartIndex;
using parallel::PartUnits;
using parallel::TpSplit;

UnitBuilder::UnitBuilder(Architecture& architecture, const config::Model& model, const IsTrainable& is_trainable,
                         const config::Lora& lora, bool cuts_tokens, SentTiles sends_fp8)
    : parts_(architecture.parts),
      is_trainable_(is_trainable),
      lora_(lora),
      sends_fp8_(sends_fp8),
      norm_split_(cuts_tokens ? TpSplit::partial : TpSplit::none),
      norm_init_(model.zero_centered_norms ? Init::zeros : Init::ones) {}

void UnitBuilder::begin(const std::string& name) {
  names_.push_back(name);
  for (PartUnits& part : parts_) part.units.emplace_back().name = name;
}

ParameterGroup UnitBuilder::add(std::string name, const Shape& shape, const PartUnits& like) {
  const PartIndex part = part_like(like);
  std::vector<Parameter>& parameters = parts_[part].units.back().parameters;
  Parameter& p = parameters.emplace_back();
  p.name = std::move(name);
  p.rows = shape.rows;
  p.columns = shape.columns;
  p.split = shape.split;
  p.num_kv_heads = shape.num_kv_heads;
  return {.unit = unit(), .part = part, .first = checked_cast<int>(parameters.size()) - 1, .count = 1};
}

ParameterGroup UnitBuilder::matrix(std::string name, const Shape& shape) {
  constexpr std::string_view suffix = ".weight";
  if (!name.ends_with(suffix) || !lora_.saves(name.substr(0, name.size() - suffix.size()))) {
    const bool has_gradient = is_trainable_(name);
    return add(std::move(name), shape, {.units = {}, .has_gradient = has_gradient});
  }
  const ParameterGroup added = add(peft_prefix + name, shape, {});
  Parameter& copy = parameter(added);
  copy.copy_of = std::move(name);
  if (shape.columns == 0) copy.rate_factor = lora_.loraplus_lr_ratio;
  return added;
}

ParameterGroup UnitBuilder::vector(std::string name, const Shape& shape, Init init) {
  const ParameterGroup added = matrix(std::move(name), shape);
  parameter(added).init = init;
  return added;
}

ParameterGroup UnitBuilder::norm(std::string name, std::int64_t size) {
  return vector(std::move(name), {size, 0, norm_split_}, norm_init_);
}

ParameterGroup UnitBuilder::constant(std::string name, std::int64_t size) {
  const ParameterGroup added = add(std::move(name), {size, 0, TpSplit::none},
                                   {.units = {}, .has_gradient = false, .of_experts = false, .in_float32 = true});
  parameter(added).init = Init::zeros;
  return added;
}

ParameterGroup UnitBuilder::fuse(ParameterGroup group, const ParameterGroup& last) {
  if (!group.exists()) return last;
  SFT_ENSURE(last.part == group.part, "parameters that ops use as one are in one part: all trained, or none");
  parameter(last).joins_previous = true;
  ++group.count;
  return group;
}

Parameter& UnitBuilder::parameter(const ParameterGroup& group) {
  return parts_[group.part].units.back().parameters.at(static_cast<std::size_t>(group.first));
}

PartIndex UnitBuilder::part_like(const PartUnits& like) {
  for (const PartIndex index : parts_.indices()) {
    const PartUnits& part = parts_[index];
    if (part.has_gradient != like.has_gradient || part.of_experts != like.of_experts) continue;
    if (part.four_bits == like.four_bits && part.in_float32 == like.in_float32 && part.in_fp8 == like.in_fp8) {
      return index;
    }
  }
  PartUnits part = like;
  for (const std::string& name : names_) part.units.emplace_back().name = name;
  parts_.push_back(std::move(part));
  return parts_.last();
}

}  // namespace sft::model
