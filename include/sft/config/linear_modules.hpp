// SPDX-License-Identifier: Apache-2.0
#pragma once
// The linear layers of a model's blocks: their names, paths such as model.layers.0.self_attn.q_proj, and sizes.

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "sft/config/config.hpp"

namespace sft::config {

/// A linear layer of a block that an adapter can be added to.
struct LinearModule {
  const char *parent, *name;  ///< "self_attn", "q_proj"
  std::int64_t rows, columns;
  bool joins_previous;  ///< it is one product with the module before it, and is kept alike

  [[nodiscard]] std::string path(std::size_t layer) const;
};

/// The linear layers of layer number `layer`; experts are not among them. Pure, as the others.
[[nodiscard]] std::vector<LinearModule> linear_modules(const Model& model, std::size_t layer);
/// The paths of the linear layers of all layers, in groups that are one product.
[[nodiscard]] std::vector<std::vector<std::string>> linear_module_groups(const Model& model);
/// All names of linear layers, of any model: "q_proj" and so on.
[[nodiscard]] const std::vector<std::string>& linear_layer_names();

}  // namespace sft::config
