// SPDX-License-Identifier: Apache-2.0
#pragma once
// Meshes of up to 16 ranks, and for each one way to split and keep a model's state. The ways are drawn so that any
// two choices meet somewhere in the table.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "equivalence/trajectory.hpp"
#include "sft/config/config.hpp"
#include "support/layout.hpp"

namespace sft::test {

/// What is chosen besides the mesh.
enum class Factor {
  zero_stage,
  reshard_after_forward,  ///< true, false, N
  fsdp_units,             ///< block, 2 blocks, parts
  sp_method,              ///< ring, all_gather, ulysses, hybrid
  activation_checkpointing,
  activation_offload,
  offload_optimizer,  ///< none, nvme
  mlp_tile_tokens,
  accumulation,
  tp_sequence_parallel,
};
inline constexpr std::array num_levels{4, 3, 3, 4, 3, 2, 2, 2, 2, 2};
inline constexpr std::size_t num_factors = num_levels.size();

/// One choice of each factor, as its number among num_levels.
using Levels = std::array<int, num_factors>;

struct SplitCase {
  test::Layout layout;
  Family family;
  std::int64_t num_attention_heads;
  Levels levels;

  [[nodiscard]] int level(Factor factor) const { return levels[static_cast<std::size_t>(factor)]; }
  /// Whether the choice does anything on this mesh: without dp_shard and sp nothing is sharded, without sp no attention
  /// is shared, and without tp no tokens are cut.
  [[nodiscard]] bool is_effective(Factor factor) const;
  [[nodiscard]] bool is_legal() const;
  [[nodiscard]] Task task() const;
  /// All keys of the choices, in float32; state and activations that go to files go to `folder`.
  [[nodiscard]] config::Config config(const std::string& folder) const;
  [[nodiscard]] std::string name() const;
};

/// Every ordered factorization of 2, 3, 4, 6 and 8 into the axes, and every second one of 12 and 16. The same table on
/// every machine. Pure.
[[nodiscard]] std::vector<SplitCase> split_table();

/// Which pairs of choices, and which triples of stage, method and recomputation, no case has; those that are never
/// legal are left out. Pure.
[[nodiscard]] std::vector<std::string> missing_combinations(const std::vector<SplitCase>& cases);

}  // namespace sft::test
