// SPDX-License-Identifier: Apache-2.0
#pragma once
// A regular expression of Python that names modules of a model by their paths, such as model.layers.0.self_attn.q_proj.

#include <memory>
#include <string>

namespace sft::config {

class ModulePattern {
 public:
  /// Throws std::invalid_argument with the reason for a text that is no regular expression.
  explicit ModulePattern(const std::string& text);

  /// Whether it matches the whole path: Python's re.fullmatch. Throws std::invalid_argument where matching takes more
  /// than the library allows.
  [[nodiscard]] bool matches(const std::string& module) const;

 private:
  struct Compiled;
  std::shared_ptr<const Compiled> compiled_;
};

}  // namespace sft::config
