// SPDX-License-Identifier: Apache-2.0
#pragma once
// The part of a weight that an adapter begins with: the A and B of PiSSA (Meng et al. 2024) and OLoRA (Büyükakyüz
// 2024), as PEFT 0.21 has them, computed in float64 by LAPACK on the host. Pure: the same weight gives the same bits.
//
// W: a weight (N, M), row-major; rank R at most N and M; `scale`: what b a is multiplied with in the model.

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sft/config/lora.hpp"

namespace sft::model {

/// The shape of a weight.
struct WeightShape {
  std::int64_t rows, columns;
};

struct WeightFactors {
  std::vector<float> a;  ///< (R, M)
  std::vector<float> b;  ///< (N, R)
};

/// scale b a is the nearest matrix of that rank to W: singular vectors times roots of singular values. Signs, which
/// vectors leave open, are such that the largest element of each column of b is positive.
[[nodiscard]] WeightFactors principal_factors(std::span<const float> weight, const WeightShape& shape,
                                              const config::AdapterSize& size);
/// The same, nearly: singular vectors in the image of a random matrix (of `seed`) that W was applied to, behind so many
/// subspace iterations (Halko, Martinsson and Tropp 2011, algorithms 4.4 and 5.1, as torch.svd_lowrank).
[[nodiscard]] WeightFactors principal_factors_near(std::span<const float> weight, const WeightShape& shape,
                                                   const config::AdapterSize& size, std::int64_t num_iterations,
                                                   std::uint64_t seed);
/// The first columns of Q and rows of R of W = Q R; the model subtracts scale b a from W.
[[nodiscard]] WeightFactors orthogonal_factors(std::span<const float> weight, const WeightShape& shape,
                                               std::int64_t rank);

/// That which `init` says, which splits weights.
[[nodiscard]] WeightFactors weight_factors(const config::AdapterInit& init, std::span<const float> weight,
                                           const WeightShape& shape, const config::AdapterSize& size,
                                           std::uint64_t seed);
/// The most memory that weight_factors() takes at a time, with what it gives and without the weight.
[[nodiscard]] std::size_t weight_factors_bytes(const config::AdapterInit& init, const WeightShape& shape,
                                               std::int64_t rank);

}  // namespace sft::model
