// SPDX-License-Identifier: Apache-2.0
#pragma once
// The choice of the next token from its logits. Pure, but for the state of its random numbers.

#include <cstdint>
#include <random>
#include <span>

namespace sft::generate {

/// In the order in which they apply, which is that of transformers' generate.
struct Sampling {
  double temperature = 0.0;  ///< 0: always the likeliest token, whatever the others say; else logits are divided by it
  std::int64_t top_k = 0;    ///< 0: all; else only tokens as likely as the k-th
  double top_p = 1.0;        ///< only the likeliest tokens that together reach it (Holtzman et al. 2020); in (0, 1]
  std::uint64_t seed = 0;
};

/// A seed and logits give the same tokens on every machine, but for rounding.
class Sampler {
 public:
  explicit Sampler(const Sampling& sampling);

  /// The next token, an index into `logits`, of which there is at least one. Of equal ones the greedy choice takes the
  /// first. A numerical Error for NaN, or where all are infinite.
  [[nodiscard]] std::int32_t choose(std::span<const float> logits);

 private:
  Sampling sampling_;
  std::mt19937_64 random_;
};

}  // namespace sft::generate
