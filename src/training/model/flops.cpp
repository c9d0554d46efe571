// SPDX-License-Identifier: Apache-2.0
#include "sft/model/flops.hpp"

#include <cmath>
#include <optional>
#include <utility>

namespace sft::model {

namespace {

/// FLOPs of a weight and token: two products of the result, of the gradient of the input, and of that of the weight.
constexpr double of_trained = 6.0, of_frozen = 4.0;

struct Matrices {
  double adapters = 0.0, copies = 0.0;  ///< elements of adapters, and of layers that are trained whole with them
};

Matrices trained_matrices(const Architecture& architecture) {
  Matrices trained;
  for (const parallel::PartUnits& part : architecture.parts) {
    if (!part.has_gradient) continue;
    for (const parallel::Unit& unit : part.units) {
      for (const parallel::Parameter& parameter : unit.parameters) {
        if (parameter.is_vector() || parameter.copy_of == "model.embed_tokens.weight") continue;
        (parameter.copy_of.empty() ? trained.adapters : trained.copies) += static_cast<double>(parameter.elements());
      }
    }
  }
  return trained;
}

double head_weights(const Architecture& architecture) {
  const parallel::ParameterGroup& head = architecture.parameters.head.weight;
  const std::vector<parallel::Unit>& units = architecture.parts[head.part].units;
  return static_cast<double>(
      units[static_cast<std::size_t>(head.unit)].parameters[static_cast<std::size_t>(head.first)].elements());
}

WeightCounts count(const Architecture& architecture) {
  WeightCounts counts{.all = 0, .of_token = std::llround(head_weights(architecture))};
  for (const parallel::PartUnits& part : architecture.parts) {
    for (const parallel::Unit& unit : part.units) {
      for (const parallel::Parameter& parameter : unit.parameters) counts.all += parameter.elements();
    }
  }
  for (const BlockParameters& block : architecture.parameters.blocks) {
    for (const BlockSublayer& sublayer : block.sublayers) {
      counts.of_token += std::llround(sublayer.layer->matmul_weights());
    }
  }
  return counts;
}

}  // namespace

WeightCounts weight_counts(const config::Model& model) {
  thread_local std::optional<std::pair<config::Model, WeightCounts>> last;
  if (!last || last->first != model) last.emplace(model, count(make_architecture(model)));
  return last->second;
}

double model_flops(const Architecture& architecture, bool has_adapters, const TokenCounts& tokens) {
  double weights = head_weights(architecture), core = 0.0;
  for (const BlockParameters& block : architecture.parameters.blocks) {
    for (const BlockSublayer& sublayer : block.sublayers) {
      weights += sublayer.layer->matmul_weights();
      core += sublayer.layer->core_flops(tokens);
    }
  }
  double of_token = of_trained * weights;
  if (has_adapters) {
    const Matrices trained = trained_matrices(architecture);
    of_token = of_frozen * weights + of_trained * trained.adapters + (of_trained - of_frozen) * trained.copies;
  }
  return of_token * tokens.num_tokens + core;
}

}  // namespace sft::model
