// SPDX-License-Identifier: Apache-2.0
#pragma once
// What experts compute on the rows that have arrived at them: products, gates, and their gradients. Products of no rows
// are left out.

#include <cstdint>

#include "sft/model/layers/expert_mlp.hpp"
#include "sft/model/linear/fp8_buffers.hpp"
#include "sft/ops/call.hpp"

namespace sft::model {

/// Rows of neighbouring experts of this rank, one expert behind the other: R of them, with the gaps of alignment.
struct ExpertRows {
  Tensor rows;                 ///< (R, C): what experts read, then what they give
  Tensor act;                  ///< (R, F)
  Tensor gate_up;              ///< (R, 2F)
  Tensor low, low_grad;        ///< (at least R times the largest rank) of adapters, or empty
  Fp8Memory codes;             ///< where products are in fp8, for the gradient of gate_up: in the memory of act
  ops::ExpertOffsets offsets;  ///< where each expert's rows begin, and where the last one's end
  std::int64_t first_expert;   ///< of this rank's

  [[nodiscard]] bool has_rows() const { return offsets.back() > 0; }
};

/// gate_up = what the layer gives for the rows.
void multiply_gate_up(const Context& c, const ExpertParameters& p, const ExpertRows& here);

/// act = the gate of gate_up.
void activate(const Context& c, const ExpertRows& here);

/// rows = what the layer `down` gives for act. Of ranks of tp, which have terms of it, one adds the bias.
void multiply_down(const Context& c, const ExpertParameters& p, const ExpertRows& here);

/// rows: in the gradient of what experts give, out that of what they read; gate_up and act become gradients. Adds those
/// of `down`, as far as it is trained. In fp8 codes come in the place of act, if gate_up is trained.
void differentiate(const Context& c, const ExpertParameters& p, const ExpertRows& here);

/// Adds the gradients of `gate_up`, as far as it is trained, of the gradient in here.gate_up and what experts read in
/// here.rows; in fp8 of the codes that differentiate() has left.
void add_gate_up_gradients(const Context& c, const ExpertParameters& p, const ExpertRows& here);

}  // namespace sft::model
