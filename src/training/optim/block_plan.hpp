// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where state in 8 bits lies: which elements of a rank shard share a scale, and which blocks the mesh cuts. Pure.
//
// Blocks are of the logical tensor, block b having its elements [256 b, 256 b + 256), so they are the same on any mesh.
// Where a border of shards or slices lies within one, the block is cut: all ranks keep its scale, in a slot, for each
// needs the other parts' largest moments. All other blocks are whole on each rank that has anything of them.

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "sft/parallel/shard_map.hpp"
#include "update_plan.hpp"

namespace sft::optim {

/// Whether the moments of a parameter are kept in 8 bits: with the exceptions that bitsandbytes makes (fewer than 4096
/// elements), and transformers with it (the embedding).
[[nodiscard]] bool is_blockwise(parallel::UnitIndex unit, const parallel::Parameter& parameter);
/// Elements of a row; of a vector one.
[[nodiscard]] std::int64_t width_of(const parallel::Parameter& parameter);
[[nodiscard]] std::int64_t num_blocks(const parallel::Parameter& parameter);

/// The cut blocks of a parameter, whose slots follow each other.
struct CutBlocks {
  bool are_all = false;              ///< all of its blocks are
  std::vector<std::int64_t> blocks;  ///< else these, ascending
  std::int64_t first_slot = 0, num_slots = 0;
};

/// The cut blocks of all parameters: the same on all ranks of a mesh, of experts on those with the same ones.
class BlockCuts {
 public:
  explicit BlockCuts(const parallel::ShardMap& shard_map);

  [[nodiscard]] std::int64_t num_slots() const { return num_slots_; }
  [[nodiscard]] const CutBlocks& of(const parallel::Parameter& parameter) const;

 private:
  std::map<std::string, CutBlocks> by_name_;  ///< of parameters that have any
  std::int64_t num_slots_ = 0;
};

/// Elements of one parameter that one call of the kernel updates.
struct BlockRun {
  enum class Kind {
    floats,  ///< state in float32
    whole,   ///< whole blocks, but that the last of a parameter may be short
    cut,     ///< parts of cut blocks
  };
  const parallel::Parameter* parameter;
  parallel::UnitIndex unit;
  Kind kind;
  std::int64_t begin, count;  ///< in the rank shard
  std::int64_t state_begin;   ///< in the array of the numbers, the codes, or the cut codes
  /// whole: in the array of scales; cut: the slot of first_block, behind which lie those of num_scales blocks.
  std::int64_t scale_begin, num_scales;
  std::int64_t first_block;          ///< cut
  ops::StochasticRounding rounding;  ///< where the elements lie in the logical tensor; its key is without the step
};

/// What a rank keeps.
struct BlockPlan {
  BlockPlan(const parallel::ShardMap& shard_map, const BlockCuts& cuts);

  std::vector<BlockRun> runs;  ///< ascending
  std::int64_t num_floats = 0, num_codes = 0, num_cut_codes = 0, num_scales = 0;
};

/// Neighbouring elements of one unit that are stepped at a time.
struct BlockWindow {
  parallel::UnitIndex unit;
  parallel::ShardRange shard, floats, codes;  ///< in the rank shard and the arrays
  std::vector<BlockRun> runs;
};

/// All of it, ascending: windows of max_elements of the rank shard at most, but at least one block. No whole block lies
/// in two.
[[nodiscard]] std::vector<BlockWindow> plan_windows(const parallel::ShardMap& shard_map, const BlockPlan& plan,
                                                    std::int64_t max_elements);

}  // namespace sft::optim
