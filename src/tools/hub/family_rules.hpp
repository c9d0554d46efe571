// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the files of the families call and cut otherwise than the model.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sft/hub/file_layout.hpp"

namespace sft::hub {

/// How the rows of the model's tensors lie in a stored one.
enum class Cut {
  rows,          ///< part behind part
  rotary_pairs,  ///< in each head the rotated rows i and i + rotary_dim / 2 of the model lie side by side
  experts        ///< those of all experts in one: (experts, rows, columns), of biases (experts, rows)
};

/// Which sizes of the layout a part's rows follow from.
enum class Rows { queries, keys, intermediate, as_stored };

struct PartRule {
  const char* module;  ///< of the model, without "model.layers.N."; "*" stands for the number of an expert
  Rows rows;
};

/// A module of the files, without "model.layers.N.", and the modules of the model that are in it. "*" stands for the
/// number of an expert in both names; without it in the files' name all experts are in one.
struct Rule {
  const char* stored;
  Cut cut;
  std::vector<PartRule> parts;
};

/// gate_proj and up_proj as one.
[[nodiscard]] Rule fused_mlp();
/// Router and experts by the names of Mixtral.
[[nodiscard]] std::vector<Rule> rules_of_mixtral();

/// The rules of the family with this model_type; none where it stores the model's tensors as they are, or is not known.
[[nodiscard]] const std::vector<Rule>& rules_of(const std::string& model_type);

/// The rows of the first part's weight and so on, where they follow from the layout; 0: they do not.
[[nodiscard]] std::int64_t rows_of(const FileLayout& layout, Rows rows);

/// A tensor's name in parts: stem "model.layers.3.", module "self_attn.q_proj", suffix ".weight". All of them together
/// are the name. The stem is empty, and the module the whole name, for tensors outside of layers.
struct NameParts {
  std::string stem, module, suffix;
};
[[nodiscard]] NameParts split_name(const std::string& name);

/// The number that stands for "*" in `pattern`, or 0 where it has none; nothing where the text does not match.
[[nodiscard]] std::optional<std::int64_t> match(std::string_view pattern, std::string_view text);
/// `pattern` with the number in place of "*".
[[nodiscard]] std::string with_number(std::string_view pattern, std::int64_t number);

}  // namespace sft::hub
