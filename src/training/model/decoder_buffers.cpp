// SPDX-License-Identifier: Apache-2.0
#include "sft/model/decoder_buffers.hpp"

#include <algorithm>

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/transfer/staged_file_mover.hpp"

namespace sft::model {

namespace {

/// While a block works in one, that of the block before or behind it is copied.
constexpr int num_slots_of_offloading = 2;

std::size_t size_bytes(const std::vector<Tensor>& tensors) {
  std::size_t bytes = 0;
  for (const Tensor& tensor : tensors) bytes += tensor.size_bytes();
  return bytes;
}

}  // namespace

DecoderBuffers::DecoderBuffers(const config::Model& config, const config::Lora& lora,
                               const DecoderParameters& parameters, const Sizes& sizes, device::Kind kind,
                               const ActivationPolicy& policy, const Objective& objective, config::Fp8 fp8_products)
    : loss_head(sizes, kind, objective),
      adapters(lora, parameters, sizes, policy),
      fp8(fp8_products, parameters, sizes, policy, !lora.use_peft),
      balance(config),
      sizes_(sizes),
      config_(config),
      parameters_(parameters),
      policy_(policy),
      num_slots_(policy.location == ActivationPolicy::Location::device
                     ? parameters.blocks.size()
                     : std::min(parameters.blocks.size(), num_slots_of_offloading)),
      all_blocks_(make_block_buffers(parameters, sizes, policy)) {}

void DecoderBuffers::lay_out(device::Arena& activations, device::Arena& workspace, device::Arena& tp_sums,
                             device::Arena& host) {
  all_scratch_ = take_scratch(workspace, tp_sums, sizes_, config_, parameters_, all_blocks_);
  take_in_turn(workspace, all_blocks_.size(), [&](int block) {
    take_activations(workspace, policy_, Share::shared, all_blocks_[BlockIndex::from(block)]);
  });
  for (int slot = 0; slot < num_slots_; ++slot) {
    const int num_in_slot = (all_blocks_.size() - slot + num_slots_ - 1) / num_slots_;
    take_in_turn(activations, num_in_slot, [&](int turn) {
      take_activations(activations, policy_, Share::kept, all_blocks_[BlockIndex::from(slot + turn * num_slots_)]);
    });
  }
  place_bytes_ = 0;
  for (const BlockBuffers& block : all_blocks_) {
    place_bytes_ = std::max(place_bytes_, size_bytes(kept_tensors(block, policy_)));
  }
  host_places.clear();
  if (policy_.location == ActivationPolicy::Location::host) {
    for (int i = 0; i < num_offloaded(); ++i) {
      host_places.push_back(take(host, DType::bf16, {checked_cast<std::int64_t>(place_bytes_ / size_of(DType::bf16))}));
    }
  }
  if (policy_.location == ActivationPolicy::Location::file_behind_host && num_offloaded() > 0) {
    const std::size_t bytes = transfer::StagedFileMover::staging_bytes(place_bytes_);
    staging = take(host, DType::uint8, {checked_cast<std::int64_t>(bytes)});
  }
  all_last_rstd_ = take(activations, DType::float32, {sizes_.slice_tokens()});
  loss_head.lay_out(workspace, tp_sums);
  adapters.lay_out(workspace, tp_sums);
  fp8.lay_out(workspace);
  balance.lay_out(workspace);
  set_tokens(sizes_.tokens);
}

std::uint64_t DecoderBuffers::offloaded_file_bytes() const {
  const std::size_t num_places = static_cast<std::size_t>(num_offloaded());
  switch (policy_.location) {
    case ActivationPolicy::Location::file:
      return num_places * place_bytes_;  // through the system's cache: one behind the other
    case ActivationPolicy::Location::file_behind_host:
      return transfer::StagedFileMover::file_bytes(place_bytes_, num_places);
    case ActivationPolicy::Location::device:
    case ActivationPolicy::Location::host:
      break;
  }
  return 0;
}

void DecoderBuffers::set_tokens(std::int64_t num_tokens) {
  SFT_ENSURE(num_tokens % sizes_.token_slices == 0, "tokens that are cut over tp divide by its size");
  blocks.clear();
  for (const BlockBuffers& block : all_blocks_) blocks.push_back(first_tokens(block, sizes_, num_tokens));
  scratch = first_tokens(all_scratch_, num_tokens);
  scratch.balance = &balance;
  last_rstd = all_last_rstd_.rows(0, num_tokens / sizes_.token_slices);
}

}  // namespace sft::model
