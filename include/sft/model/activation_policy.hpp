// SPDX-License-Identifier: Apache-2.0
#pragma once
// The choice of tensors that a block keeps from its forward to its backward pass, and their place. Pure.

#include <array>
#include <cstdint>

#include "sft/config/config.hpp"
#include "sft/device/device.hpp"

namespace sft::model {

/// The time for which a tensor of a block is needed.
enum class Lifetime {
  input,      ///< to the backward pass: what cannot be computed again
  products,   ///< to the backward pass: results that cost products or attention
  followers,  ///< to the backward pass: what follows from these at little cost
  pass,       ///< within a pass through its sublayer: all sublayers share the memory
  backward,   ///< within a backward pass through its sublayer, in the same memory
};

/// Lifetimes of the tensors that a backward pass reads.
inline constexpr std::array kept_lifetimes = {Lifetime::input, Lifetime::products, Lifetime::followers};

/// The tensors that a block keeps for itself. All else lies in memory that the blocks share, and the block computes
/// it again before its backward pass.
///
///   checkpointing  input  products      followers    computed again
///     none         kept   kept          kept         nothing but norms and activations that cost next to nothing
///     selective    kept   kept          shared       also q/k norm with rotation, and the product o
///     full         kept   shared, and   shared       also attention and the products qkv, gate and up; not down, which
///                         no gate_up                 nothing in the backward pass reads
///
/// full is that of Chen et al. 2016; selective is in the spirit of Korthikanti et al. 2022, with attention kept, whose
/// memory grows with T alone (Dao et al. 2022). What is computed again has the same bits: same ops, same shapes.
struct ActivationPolicy {
  /// The place of kept activations between forward and backward pass.
  enum class Location {
    device,
    host,              ///< pinned memory of the node
    file,              ///< from a CPU
    file_behind_host,  ///< a file, by way of pinned memory for some blocks
  };

  config::ActivationCheckpointing checkpointing = config::ActivationCheckpointing::none;
  /// Tokens that the MLP works on at a time (Arctic long sequence training, Bekman et al. 2025), forward and backward;
  /// at least 1. Above T: all of them.
  std::int64_t mlp_tile_tokens = INT64_MAX;
  Location location = Location::device;
  /// Groups of key/value heads, with their query heads, that attention works on one after the other.
  std::int64_t head_groups = 1;

  [[nodiscard]] bool keeps_products() const { return checkpointing != config::ActivationCheckpointing::full; }
  [[nodiscard]] bool keeps_all() const { return checkpointing == config::ActivationCheckpointing::none; }
  [[nodiscard]] bool keeps(Lifetime lifetime) const {
    return lifetime == Lifetime::input || (lifetime == Lifetime::products && keeps_products()) ||
           (lifetime == Lifetime::followers && keeps_all());
  }
};

/// The policy that [train] of a ValidConfig asks for on a device of `kind`.
[[nodiscard]] ActivationPolicy activation_policy(const config::Train& train, device::Kind kind);

}  // namespace sft::model
