// SPDX-License-Identifier: Apache-2.0
#pragma once
// Every parameter of the model: its name, its logical shape, and which piece of it this rank holds. Pure.
//
// A rank holds, of every unit (embedding, each block, head), the tp slice of its parameters laid out flat ("unit
// flat"), and of that the 1/fsdp_size piece `fsdp_rank` ("unit shard"). Its unit shards, one after the other, are its
// "rank shard".
//
// Parameters that are not stored, sharded and gathered alike are in different parts of their unit (Part), and each part
// has a map of its own, with the same units. A unit without parameters of that part is empty there.

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sft/core/index.hpp"
#include "sft/mesh/place.hpp"

namespace sft::parallel {

enum class TpSplit {
  none,        ///< every tp rank has all of it, and all of its gradient
  partial,     ///< every tp rank has all of it, but only a term of its gradient: summed over tp
  rows,        ///< split along dim 0
  columns,     ///< split along dim 1
  vocab_rows,  ///< split along dim 0 by VocabSplit: the vocabulary, whose size need not divide
  kv_rows,     ///< split along dim 0 by head; heads fewer than ranks are replicated, gradients summed
};

/// The rows of a vocabulary-parallel table that a rank of tp holds: vocab_size / tp_size of them, the first ranks one
/// more where that is no whole number. No rank holds padding, so nothing has to be kept out of the loss.
struct VocabSplit {
  std::int64_t begin, count;
  std::int64_t max_count;  ///< the largest count of any rank
};
/// Every rank has at least one row: vocab_size >= tp_size.
[[nodiscard]] VocabSplit split_vocab(std::int64_t vocab_size, int tp_size, TpRank tp_rank);

enum class Init {
  normal,
  ones,
  zeros,
  kaiming,  ///< uniform in +-1/sqrt(fan_in): kaiming_uniform with a = sqrt(5), as torch.nn.Linear and PEFT have it
  by_rows,  ///< normal with deviation 1/rows
};

struct Parameter {
  // Given by the model.
  std::string name;          ///< Hugging Face name
  std::int64_t rows = 0;     ///< logical dim 0
  std::int64_t columns = 0;  ///< logical dim 1; 0: the parameter is a vector
  TpSplit split = TpSplit::none;
  std::int64_t num_kv_heads = 0;  ///< with kv_rows: the heads that the rows belong to; it divides tp, or tp it
  /// Of one of a layer's experts: how many there are, and its number among them. The ranks of ep hold neighbouring
  /// ones, equally many; of the others' they hold no element. 0: of no expert.
  int num_experts = 0, expert = 0;
  Init init = Init::normal;
  std::int64_t fan_in = 0;       ///< of Init::kaiming; 0: the columns
  double rate_factor = 1.0;      ///< of the learning rate
  bool is_score_vector = false;  ///< the elements are scores: weight decay acts on them as on matrices
  /// The name of the parameter in whose place this copy of it is trained; empty: it is no copy.
  std::string copy_of;
  /// Ops use it together with the parameter before it, as one matrix or vector (k and v with q): it follows without a
  /// gap. Every other parameter begins on a border of `alignment_elements`.
  bool joins_previous = false;

  // Filled by ShardMap.
  std::int64_t local_rows = 0, local_columns = 0;  ///< tp slice; local_columns = 1 for a vector
  std::int64_t row_begin = 0, column_begin = 0;    ///< where the slice starts in the logical tensor
  std::int64_t unit_offset = 0;                    ///< first element in the unit flat
  bool is_owner = true;  ///< this rank counts in norms and writes checkpoints, of all that hold this slice

  [[nodiscard]] bool is_vector() const { return columns == 0; }
  /// Whether weight decay acts on it: on all but biases and norms, as in the Trainer of transformers (5.23), which goes
  /// by what parameters are called (get_decay_parameter_names).
  [[nodiscard]] bool decays() const { return !is_vector() || is_score_vector; }
  [[nodiscard]] std::int64_t local_elements() const { return local_rows * local_columns; }
  [[nodiscard]] std::int64_t elements() const { return rows * (is_vector() ? 1 : columns); }
};

/// The number of a unit of the model.
using UnitIndex = Index<struct Unit>;

/// The number of a part among those that the units of a model consist of (Part).
using PartIndex = Index<struct Part>;

/// Neighbouring parameters of one unit that ops use as one matrix (their rows one after the other) or vector.
struct ParameterGroup {
  UnitIndex unit{};
  PartIndex part{};
  int first = 0;  ///< number of the first one among the unit's parameters in that part
  int count = 0;  ///< 0: the model has no such parameter

  [[nodiscard]] bool exists() const { return count > 0; }
};

/// 16-byte loads of bf16 and float32 are aligned at such borders: of groups of parameters and of shards.
inline constexpr std::int64_t alignment_elements = 64;

struct Unit {
  std::string name;
  std::vector<Parameter> parameters;
  /// Length of the unit flat, which is padded at its end to a multiple of fsdp_size * alignment_elements.
  std::int64_t num_elements = 0;
  std::int64_t shard_elements = 0;  ///< length of the unit shard: num_elements / fsdp_size
  std::int64_t shard_offset = 0;    ///< where the unit shard begins in the rank shard
};

/// A run of elements of one parameter that lies in the rank shard.
struct Piece {
  const Parameter* parameter;
  std::int64_t begin;  ///< first element, counted in the local (tp) slice, row-major
  std::int64_t count;
  std::int64_t shard_offset;  ///< where that element lies in the rank shard
};

/// Neighbouring elements of the rank shard, or of a unit flat.
struct ShardRange {
  std::int64_t begin, count;
};

/// A rectangle of the logical tensor that is contiguous in the rank shard.
struct LogicalRectangle {
  std::int64_t row_begin, num_rows, column_begin, num_columns;
  std::int64_t shard_offset;  ///< where its first element lies in the rank shard
};

/// Elements [begin, begin + count) of a row-major tensor with rows of `width`.
struct LogicalRun {
  std::int64_t begin, count, width;
};

/// Elements of all logical parameters of a model, each counted once.
struct ParameterCounts {
  std::int64_t all, trainable;
};

/// The axes along which ranks hold different slices of these units: tp, and of experts ep. A std::logic_error
/// where some of the parameters are experts' and some are not.
[[nodiscard]] AxisSet slice_axes_of(const std::vector<Unit>& units);

class ShardMap {
 public:
  /// `units` with names, shapes and splits; `place` is that of the rank whose rank shard it describes. `shard_axes`:
  /// over which the units are sharded, none of them one that slices; ranks that differ along other axes alone hold the
  /// same shards.
  ShardMap(std::vector<Unit> units, const mesh::Place& place, const AxisSet& shard_axes = fsdp_axes);
  ShardMap(ShardMap&&) noexcept = default;  // pieces point into the units, which a move keeps in place
  ShardMap(const ShardMap&) = delete;

  /// The place of the rank whose rank shard it describes.
  [[nodiscard]] const mesh::Place& place() const { return place_; }
  [[nodiscard]] const AxisSet& shard_axes() const { return shard_axes_; }
  [[nodiscard]] const AxisSet& slice_axes() const { return slice_axes_; }
  /// The axes along which ranks hold the same shards.
  [[nodiscard]] AxisSet copy_axes() const { return every_axis.without(slice_axes_).without(shard_axes_); }
  /// Of the ranks that share these tensors, all or those of the same experts, this one is the first: it writes what all
  /// of them have.
  [[nodiscard]] bool is_first_of_sharers() const {
    return place_.rank(every_axis.without(slice_axes_.contains(Axis::ep) ? AxisSet{Axis::ep} : AxisSet{})) == 0;
  }
  [[nodiscard]] const std::vector<Unit>& units() const { return units_; }
  [[nodiscard]] int num_units() const { return static_cast<int>(units_.size()); }
  [[nodiscard]] const Unit& unit(UnitIndex index) const { return units_[index]; }
  [[nodiscard]] IndexRange<UnitIndex> unit_indices() const { return IndexRange<UnitIndex>(num_units()); }
  [[nodiscard]] std::int64_t rank_shard_elements() const { return rank_shard_elements_; }
  /// All pieces of the rank shard, ascending by shard_offset.
  [[nodiscard]] const std::vector<Piece>& pieces() const { return pieces_; }
  /// A piece as at most three rectangles (part row, whole rows, part row) of the logical tensor.
  [[nodiscard]] static std::vector<LogicalRectangle> rectangles(const Piece& piece);
  /// The elements of `run` as at most three rectangles of the tensor; the first element lies at `shard_offset`.
  [[nodiscard]] static std::vector<LogicalRectangle> rectangles(const LogicalRun& run, std::int64_t shard_offset);
  /// The parts of the rank shard whose parameters satisfy `predicate`, neighbours merged, ascending.
  [[nodiscard]] std::vector<ShardRange> ranges(const std::function<bool(const Parameter&)>& predicate) const;
  /// The parts of one unit's shard whose parameters satisfy `predicate`, neighbours merged, ascending; begins count
  /// from the start of the rank shard.
  [[nodiscard]] std::vector<ShardRange> ranges_of_unit(UnitIndex index,
                                                       const std::function<bool(const Parameter&)>& predicate) const;
  /// The parts of the rank shard that belong to no parameter, ascending.
  [[nodiscard]] std::vector<ShardRange> padding() const;
  /// The parts of a unit flat that belong to no parameter, ascending; begins count from its first element.
  [[nodiscard]] std::vector<ShardRange> padding_of_unit(UnitIndex index) const;
  /// Elements of all logical parameters, each counted once.
  [[nodiscard]] std::int64_t num_parameters() const;

  /// The map that rank `rank` of the same mesh has.
  [[nodiscard]] ShardMap of_rank(WorldRank rank) const { return {units_, place_.peer(rank), shard_axes_}; }

 private:
  std::vector<Unit> units_;  ///< by UnitIndex
  mesh::Place place_;
  AxisSet shard_axes_, slice_axes_;
  std::vector<Piece> pieces_;
  std::vector<std::size_t> first_piece_;  ///< number of each unit's first piece, then that of all pieces
  std::int64_t rank_shard_elements_ = 0;
};

}  // namespace sft::parallel
