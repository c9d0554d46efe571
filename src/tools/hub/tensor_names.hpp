// SPDX-License-Identifier: Apache-2.0
#pragma once
// A tensor of the model by its name: which rule is about it, and what the files call it. And the way back.

#include <cstdint>
#include <optional>
#include <string>

#include "family_rules.hpp"
#include "sft/hub/file_layout.hpp"

namespace sft::hub {

enum class TensorKind { weight, bias, lora_a, lora_b, other };  // a bias, as a magnitude, has a number for each row

/// A tensor of the model whose place is known.
struct TensorName {
  std::string before;  ///< what the files have before the module: "language_model.model.layers.3."
  std::string module;  ///< of the model, without "model.layers.3."; the whole name where it is in no layer
  std::string suffix;  ///< ".weight" ...
  TensorKind kind = TensorKind::other;
  const Rule* rule = nullptr;  ///< that is about the module; none: it has its own name
  std::size_t part = 0;        ///< of the rule
  std::int64_t expert = 0;     ///< its number, for "*" of the rule

  /// The module of the files that it is in.
  [[nodiscard]] std::string stored_module() const;
  /// What the files call it.
  [[nodiscard]] std::string stored() const;
};

/// `name`: without its entry. Tensors of adapters have PEFT's names.
[[nodiscard]] TensorName name_of(const FileLayout& layout, const std::string& name);

/// A tensor of the files by its name.
struct StoredName {
  std::string stem;    ///< of the model: "model.layers.3.", with PEFT's prefix for adapters
  std::string module;  ///< of the files, without it
  std::string suffix;
  TensorKind kind = TensorKind::other;
  const Rule* rule = nullptr;
  std::int64_t expert = 0;  ///< where each has a module of its own

  /// What the model calls part number `part` of it; without a rule there is one.
  [[nodiscard]] std::string of_model(std::size_t part = 0) const { return of_expert(part, expert); }
  /// The same of that expert, where all are in one.
  [[nodiscard]] std::string of_expert(std::size_t part, std::int64_t number) const;
};
[[nodiscard]] StoredName stored_name_of(const FileLayout& layout, const std::string& name);

}  // namespace sft::hub
