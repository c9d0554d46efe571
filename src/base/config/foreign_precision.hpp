// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the names of TRL and Accelerate say of precision, which only several of them together decide.

#include <vector>

#include "config/names.hpp"

namespace sft::config {

/// The precision that follows from all that is written, in the order in which later ones win. `dtype = bfloat16` (or
/// torch_dtype) loads weights in bf16, and alone it trains them so: train.precision = pure_bf16. Beside mixed precision
/// (`bf16`, `mixed_precision`) Accelerate keeps float32 masters of them, which is precision = bf16.
class ForeignPrecision {
 public:
  /// Throws a configuration Error for a value that cannot be obeyed.
  explicit ForeignPrecision(const std::vector<Written>& all);

  /// Whether another name decides what `written` would set.
  [[nodiscard]] bool overrules(const Written& written) const;

 private:
  bool has_bf16_weights_ = false;
  bool is_mixed_ = false;
};

/// Refuses what others say of float32 products and of evaluation where `precision` makes it untrue: tf32 and
/// bf16_full_eval, which change nothing as long as computing is in bf16. Throws a configuration Error.
void check_precision(const std::vector<Written>& all, Precision precision);

}  // namespace sft::config
