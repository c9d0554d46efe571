// SPDX-License-Identifier: Apache-2.0
#pragma once
// The first step of a model whose products are in 8-bit floats, and how far its gradients may be from others.

#include <cstdint>
#include <vector>

#include "sft/comm/session.hpp"
#include "sft/config/config.hpp"
#include "support/engine_fixture.hpp"
#include "support/mesh.hpp"

namespace sft::test {

struct FirstStep {
  double loss;
  LogicalTensors gradients;  ///< whole
};

/// Of the rows of the global batch, in float32 beside train.fp8. `parameters`: to begin with; empty: those of the seed.
/// Collective over the mesh.
[[nodiscard]] FirstStep first_step(config::Config config, std::int64_t max_length, const std::vector<rows::Row>& rows,
                                   const Mesh& mesh, const comm::Session& session,
                                   const LogicalTensors& parameters = {});

/// The norm of the difference of all gradients, relative to that of the second ones.
[[nodiscard]] double distance(const LogicalTensors& found, const LogicalTensors& expected);

/// What gradients of the first layers are away from exact ones if each of the two operands of the four products of a
/// layer, forward and back to there, and of one more for the gradient itself, adds the error of its format.
[[nodiscard]] double expected_fp8_distance(std::int64_t num_layers);

/// What gradients of two meshes may differ by: sums in another order move a number to the next code now and then, and
/// of some thousand numbers, 50 squared, one that moves by 2^-3 is 2^-3 / 50 of the norm.
inline constexpr double fp8_mesh_distance = 0x1p-3 / 50;

}  // namespace sft::test
