// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/expert_factors.hpp"

#include <array>
#include <charconv>
#include <string_view>

namespace sft::hub {

namespace {

constexpr std::string_view peft_prefix = "base_model.model.", experts_end = ".mlp.experts", inner = ".base_layer";
constexpr std::string_view a_suffix = ".lora_A.weight", b_suffix = ".lora_B.weight";

/// The module of a matrix of an adapter.
struct OfAdapter {
  std::string_view module;
  bool is_a;
};

std::optional<OfAdapter> of_adapter(std::string_view name) {
  if (!name.starts_with(peft_prefix)) return std::nullopt;
  const std::string_view own = name.substr(peft_prefix.size());
  for (const std::string_view suffix : {a_suffix, b_suffix}) {
    if (own.ends_with(suffix)) return OfAdapter{own.substr(0, own.size() - suffix.size()), suffix == a_suffix};
  }
  return std::nullopt;
}

/// What the model calls the outputs of a weight of transformers.
struct Output {
  std::string_view name, parameter;
  int part, num_parts;
};
constexpr std::array<Output, 4> outputs{{{"gate_up_proj", "gate_up_proj", 0, 1},
                                         {"gate_proj", "gate_up_proj", 0, 2},
                                         {"up_proj", "gate_up_proj", 1, 2},
                                         {"down_proj", "down_proj", 0, 1}}};

}  // namespace

std::optional<ExpertFactor> expert_factor_of(const std::string& name) {
  const std::optional<OfAdapter> found = of_adapter(name);
  if (!found) return std::nullopt;
  const std::string before = std::string(experts_end) + ".";
  const std::size_t end = found->module.find(before);
  if (end == std::string_view::npos) return std::nullopt;
  const std::string_view rest = found->module.substr(end + before.size());  // "3.gate_proj"
  ExpertFactor factor{
      .experts = std::string(found->module.substr(0, end + experts_end.size())), .parameter = "", .is_a = found->is_a};
  const auto [stop, error] = std::from_chars(rest.data(), rest.data() + rest.size(), factor.expert);
  if (error != std::errc{} || stop == rest.data() + rest.size() || *stop != '.') return std::nullopt;
  const std::string_view module(stop + 1, rest.data() + rest.size() - stop - 1);
  for (const Output& output : outputs) {
    if (module != output.name || (factor.is_a && output.num_parts > 1)) continue;  // which share an A
    factor.parameter = output.parameter;
    factor.part = output.part;
    factor.num_parts = output.num_parts;
    return factor;
  }
  return std::nullopt;
}

std::optional<StackedFactor> stacked_factor_of(const std::string& name) {
  const std::optional<OfAdapter> found = of_adapter(name);
  if (!found) return std::nullopt;
  std::string_view module = found->module;
  const bool is_inner = module.ends_with(inner);
  if (is_inner) module.remove_suffix(inner.size());
  if (!module.ends_with(experts_end)) return std::nullopt;
  return StackedFactor{.experts = std::string(module), .is_inner = is_inner, .is_a = found->is_a};
}

}  // namespace sft::hub
