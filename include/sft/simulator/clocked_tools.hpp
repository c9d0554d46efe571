// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tools of a rank that rehearses a step on clocks.

#include "sft/rank/rehearsal_tools.hpp"

namespace sft::simulator {

/// Ops and movers move the clocks of the ClockedDevice that they are made for; of another device, std::bad_cast.
class ClockedTools final : public rank::RehearsalTools {
 public:
  ClockedTools() : rank::RehearsalTools(rank::Work::counted) {}

  [[nodiscard]] std::unique_ptr<ops::Backend> make_ops(device::Device& device, device::Stream& compute,
                                                       ops::AttentionKernels attention,
                                                       bool repeats_launches) const override;
  [[nodiscard]] std::unique_ptr<transfer::Mover> make_mover(const model::DecoderBuffers& buffers,
                                                            const std::string& folder, device::Device& device,
                                                            device::Stream& compute) const override;
};

}  // namespace sft::simulator
