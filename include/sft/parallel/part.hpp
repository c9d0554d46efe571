// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parts that the units of a model consist of. Parameters are in one part if they are stored, sharded and gathered
// alike: all weights of a model that is trained whole; with LoRA the weights are one part and the adapters another.
//
// The model says which parameter is in which part (PartUnits); make_parts, in sharding_policy.hpp, what becomes of
// each. All else goes through the list: UnitStorage is the memory of one part, UnitBuffers has room for all parts of a
// unit, and ShardedUnits gathers and reduces them together. docs/architecture.md says what a further part takes.

#include <optional>
#include <vector>

#include "sft/core/dtype.hpp"
#include "sft/core/four_bits.hpp"
#include "sft/core/index.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/ops/fp8.hpp"
#include "sft/parallel/shard_map.hpp"

namespace sft::parallel {

/// One part of a model, as the model describes it.
struct PartUnits {
  std::vector<Unit> units;   ///< all units of the model, each with its parameters in this part: some or none
  bool has_gradient = true;  ///< its parameters are trained
  bool of_experts = false;   ///< they are those of experts (Parameter::num_experts)
  std::optional<FourBitForm> four_bits = {};  ///< they are stored in 4 bits: matrices without gradients
  /// Ops read them in float32, and they are kept so, whatever the rest is computed in: constants, and magnitudes of
  /// adapters.
  bool in_float32 = false;
  std::optional<ops::Fp8Tiles> in_fp8 = {};  ///< ops read codes of 8-bit floats, with a scale for each of these
};

/// The groups in which a part is exchanged, as members of mesh::Groups.
struct PartGroups {
  using Member = comm::Group mesh::Groups::*;
  Member shards = &mesh::Groups::fsdp;         ///< they have the other shards: reduce-scatters
  Member gathers = &mesh::Groups::gathers;     ///< the same ranks: gathers
  Member neighbours = &mesh::Groups::reshard;  ///< they keep units together between forward and backward pass
  Member replicas = &mesh::Groups::replicate;  ///< they hold the same shard: sums of gradients
};
inline constexpr PartGroups groups_of_experts{.shards = &mesh::Groups::expert_fsdp,
                                              .gathers = &mesh::Groups::expert_gathers,
                                              .neighbours = &mesh::Groups::expert_reshard,
                                              .replicas = &mesh::Groups::expert_replicate};

/// One part of the units, as a rank stores and exchanges it.
struct Part {
  ShardMap shard_map;
  DType stored;       ///< dtype in which the rank shard is kept between steps
  DType gathered;     ///< dtype in which it is sent, and in which ops read the whole; but for four_bits and in_fp8
  bool has_gradient;  ///< gradients, float32, and the state of an optimizer belong to it
  bool is_in_file = false;  ///< the optimizer keeps what is stored in a file (optim::Optimizer)
  bool of_experts = false;  ///< ranks along ep have different ones: what ranks share of its memory, they share apart
  PartGroups groups = {};
  /// Records of blocks, in bytes, are stored, sent and gathered; ops read numbers in `gathered` that a unit is turned
  /// into as it is entered.
  std::optional<FourBitForm> four_bits = {};
  bool in_float32 = false;  ///< stored and gathered in float32 by its nature
  /// What is stored in `gathered` is rounded to codes of 8-bit floats on its way: these are sent, and ops read them
  /// (Fp8Gathers). A matrix has one scale, or one for each of its blocks.
  std::optional<ops::Fp8Tiles> in_fp8 = {};

  /// What gathers send.
  [[nodiscard]] DType sent() const { return four_bits || in_fp8 ? DType::uint8 : gathered; }
  /// As how many numbers of `stored`, or of sent(), that many neighbouring elements lie in memory. Those in 4 bits are
  /// whole blocks.
  [[nodiscard]] std::int64_t in_memory(std::int64_t num_elements) const {
    return four_bits ? num_elements / four_bit_block * four_bits->record_bytes() : num_elements;
  }

  /// Each rank of the group stores a shard; else all of them store the whole.
  [[nodiscard]] bool is_sharded() const { return shard_map.shard_axes() != AxisSet{}; }

  /// Gathers send a copy of what is stored, which the optimizer writes as it updates the parameters.
  [[nodiscard]] bool has_copy() const { return has_gradient && stored != gathered; }
};

/// What the optimizer updates, of parts with gradients.
enum class MasterWeights {
  in_memory,  ///< float32
  in_file,    ///< float32, in the optimizer's file: memory has their bf16 copy alone
  none,       ///< no master weights: the optimizer updates what is computed with
};

}  // namespace sft::parallel
