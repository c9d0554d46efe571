// SPDX-License-Identifier: Apache-2.0
#pragma once
// How far apart rounding can bring two layouts of one run. They do the same sums in other orders, and each order rounds
// in other places.

#include <cstdint>
#include <string>

#include "sft/config/config.hpp"

namespace sft::apps {

/// Bounds, each relative. u: the unit roundoff of what products are computed in, 2^-24 (float32) or 2^-8 (bf16); n: the
/// terms of the longest sum, d = 6 L: the products one behind another in L layers. Errors of sums and products are
/// taken as independent (Higham and Mary 2019: a sum of n terms is off by sqrt(n) u, not n u), with a factor of four
/// over it.
struct Rounding {
  double loss = 0.0;      ///< of a step: 4 u sqrt(n d); in bf16, whose sums are in float32, u
  double gradient = 0.0;  ///< norm of a step: 4 u sqrt(n d 2), n counting the tokens of a step; in bf16 u sqrt(2 d)
  double moments = 0.0;   ///< a tensor that optimizers keep, which is linear in gradients: four times that
  /// How far a tensor moved: 2 sqrt(moments). An element whose gradient is below the noise is stepped by AdamW all the
  /// same, to either side; of elements spread evenly around 0 that is a share of the noise over their size.
  double movement = 0.0;
  double stored = 0.0;      ///< u of the weights as they are stored, which each step rounds to
  std::string reason = "";  ///< these numbers in words
};

/// Of two layouts; the coarser precision counts. `tokens`: of the largest step.
[[nodiscard]] Rounding rounding_between(const config::Config& first, const config::Config& second, std::int64_t tokens);

}  // namespace sft::apps
