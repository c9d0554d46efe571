// SPDX-License-Identifier: Apache-2.0
#pragma once
// The memory of a decoder: what the forward pass keeps for the backward pass, and what all blocks share. Pure: planning
// lays it out without a device.

#include <cstddef>
#include <cstdint>
#include <vector>

#include "sft/device/arena.hpp"
#include "sft/model/block.hpp"
#include "sft/model/linear/adapter_buffers.hpp"
#include "sft/model/linear/fp8_buffers.hpp"
#include "sft/model/loss_head.hpp"
#include "sft/model/router_balance.hpp"

namespace sft::model {

class DecoderBuffers {
 public:
  /// For a rank of `sizes` that computes on a device of `kind`. `parameters` outlive it.
  DecoderBuffers(const config::Model& config, const config::Lora& lora, const DecoderParameters& parameters,
                 const Sizes& sizes, device::Kind kind, const ActivationPolicy& policy, const Objective& objective = {},
                 config::Fp8 fp8_products = config::Fp8::none);

  /// Takes everything, for Sizes::tokens; call with sizing arenas, then with real ones. `host`: pinned memory of the
  /// node, for activations that are offloaded there. `tp_sums`: for all that is summed over tp.
  void lay_out(device::Arena& activations, device::Arena& workspace, device::Arena& tp_sums, device::Arena& host);
  /// Makes all tensors below views of the first T = `num_tokens`, or S, rows of what was laid out, for the passes that
  /// follow. Throws std::logic_error unless Sizes::token_slices divides T.
  void set_tokens(std::int64_t num_tokens);

  [[nodiscard]] const ActivationPolicy& policy() const { return policy_; }
  /// Blocks that have memory of their own; block i works in that of block i % num_slots(). All of them, unless they are
  /// offloaded: then two.
  [[nodiscard]] int num_slots() const { return num_slots_; }
  /// Blocks whose activations are offloaded, the first of all; those behind them are needed first.
  [[nodiscard]] int num_offloaded() const { return all_blocks_.size() - num_slots_; }
  /// Bytes of the file that they are offloaded to; 0: none.
  [[nodiscard]] std::uint64_t offloaded_file_bytes() const;
  /// Bytes that the activations of one block take where they are offloaded, at most.
  [[nodiscard]] std::size_t offloaded_bytes() const { return place_bytes_; }

  AllBlockBuffers blocks;
  BlockScratch scratch;
  Tensor last_rstd;  ///< (S) float32, of the residual stream behind the last block, which is in scratch.dx
  /// For each offloaded block offloaded_bytes() in pinned memory, if it goes there.
  std::vector<Tensor> host_places;
  /// transfer::StagedFileMover::staging_bytes() of pinned memory, if blocks go to files by way of it; else empty.
  Tensor staging;
  LossHead loss_head;
  AdapterBuffers adapters;
  Fp8Buffers fp8;
  RouterBalance balance;

 private:
  Sizes sizes_;
  config::Model config_;
  const DecoderParameters& parameters_;
  ActivationPolicy policy_;
  int num_slots_;
  std::size_t place_bytes_ = 0;
  // What was laid out, for the most tokens; each block as its layer needs it.
  AllBlockBuffers all_blocks_;
  BlockScratch all_scratch_;
  Tensor all_last_rstd_;
};

}  // namespace sft::model
