// SPDX-License-Identifier: Apache-2.0
#pragma once
// The tools of a rank that trains on nothing: over the addresses of sizing arenas, nothing is computed or moved.

#include "sft/rank/tools.hpp"

namespace sft::rank {

/// The work of ops in place of computing: nothing, or notes of products or of attention for ops::products_bytes,
/// ops::listed_products and ops::listed_attention.
enum class Work { counted, noted, listed, attention };

/// The tools of a rank that is alone. Its movers move nothing.
class RehearsalTools : public Tools {
 public:
  explicit RehearsalTools(Work work) : work_(work) {}

  [[nodiscard]] std::unique_ptr<ops::Backend> make_ops(device::Device& device, device::Stream& compute,
                                                       ops::AttentionKernels attention,
                                                       bool repeats_launches) const override;
  [[nodiscard]] std::unique_ptr<ops::Backend> make_step_ops(device::Device& device,
                                                            device::Stream& stream) const override;
  [[nodiscard]] std::unique_ptr<transfer::Mover> make_mover(const model::DecoderBuffers& buffers,
                                                            const std::string& folder, device::Device& device,
                                                            device::Stream& compute) const override;
  [[nodiscard]] bool has_other_ranks() const override { return false; }

 private:
  Work work_;
};

}  // namespace sft::rank
