// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which modules of a model adapters belong to: the field target_modules of PEFT.

#include <memory>
#include <string>
#include <vector>

namespace sft::hub {

/// A module is named by its path in the model, such as model.layers.0.self_attn.q_proj, and matched as PEFT 0.21 does.
class TargetModules {
 public:
  /// Those with one of these names: the whole path, or the end of it behind a dot.
  [[nodiscard]] static TargetModules named(std::vector<std::string> names);
  /// Those whose whole path the regular expression matches. Throws std::invalid_argument with the reason for a text
  /// that is none.
  [[nodiscard]] static TargetModules matching(const std::string& pattern);
  /// All linear layers of the blocks: all but the output layer.
  [[nodiscard]] static TargetModules all_linear();

  [[nodiscard]] bool contains(const std::string& module) const;

 private:
  struct Pattern;

  std::vector<std::string> names_;
  std::shared_ptr<const Pattern> pattern_;  ///< in place of names
};

}  // namespace sft::hub
