// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention that exchanges heads (DeepSpeed-Ulysses, Jacobs et al. 2023): ranks that each hold some tokens with all
// heads become ranks that hold all their tokens with some heads each, attend, and exchange the result back. Between
// the groups of ranks that do so, a ring may run (USP, Fang & Zhao 2024).
//
// The `size` ranks of a group are neighbours in sp. Together they hold two chunks of the row, those of their group's
// place in RowCut(length, sp_size / size); they put their tokens together in the order of the row. So the schedule is
// that of the ring between the groups.

#include <cstdint>
#include <memory>

#include "parallel/chunk_rows.hpp"
#include "parallel/inner_attention.hpp"

namespace sft::parallel {

/// The number of a rank among the neighbours in sp that exchange heads.
using NeighbourRank = Index<struct Neighbour>;

/// Which of H query and K key/value heads each of `size` ranks gets: H / size neighbouring query heads, and the
/// key/value heads that these read, as often as it takes for all of them to be read by equally many. Pure.
class HeadAssignment {
 public:
  /// Throws std::logic_error unless `size` divides num_q_heads.
  HeadAssignment(std::int64_t num_q_heads, std::int64_t num_kv_heads, int size);

  [[nodiscard]] int size() const { return size_; }
  [[nodiscard]] IndexRange<NeighbourRank> ranks() const { return IndexRange<NeighbourRank>(size_); }
  [[nodiscard]] std::int64_t q_heads() const { return q_heads_; }               ///< of a rank
  [[nodiscard]] std::int64_t kv_heads() const { return q_heads_ / q_per_kv_; }  ///< of a rank
  [[nodiscard]] std::int64_t q_begin(NeighbourRank rank) const { return rank * q_heads_; }
  /// The key/value head that is number `i` of those of `rank`.
  [[nodiscard]] std::int64_t kv_head(NeighbourRank rank, std::int64_t i) const {
    return (q_begin(rank) + i * q_per_kv_) / q_per_original_kv_;
  }
  /// Whether some key/value heads go to several ranks.
  [[nodiscard]] bool replicates() const { return q_per_kv_ < q_per_original_kv_; }

 private:
  int size_;
  std::int64_t q_heads_, q_per_original_kv_, q_per_kv_;
};

class UlyssesBuffers final : public SequenceBuffers {
 public:
  /// Throws std::logic_error unless `ulysses_size` divides both sp_size and the query heads.
  UlyssesBuffers(const SequenceShape& of, int sp_size, int ulysses_size);

  void lay_out(device::Arena& arena) override;
  [[nodiscard]] ops::AttentionNeeds attention_needs() const override;
  [[nodiscard]] std::unique_ptr<SequenceAttention> make_attention(const comm::Group& sp, device::Device& device,
                                                                  ops::Backend& backend, comm::Collectives& collectives,
                                                                  device::Stream& ring_stream) const override;

  SequenceShape shape;
  HeadAssignment assignment;
  DType dkv_dtype;  ///< float32 where gradients of replicated key/value heads have to be summed
  std::unique_ptr<InnerBuffers> inner;
  bool brings_output;  ///< whether the inner backward pass gets the output, which a library reads

  // T tokens of a rank, U = assignment.size(), h and k the heads of a rank; columns = (2h + 2k) D, with the output
  // (3h + 2k) D.
  Tensor pieces;        ///< (U - 1, T columns) compute dtype: to the other ranks; results that come back
  Tensor tokens;        ///< (U T columns) compute dtype: queries, keys, values, dout and the output of all tokens
  Tensor result;        ///< (U T h D) compute dtype: output, or gradient of the queries
  Tensor delta;         ///< (T, H) float32, where the output is not brought
  Tensor delta_pieces;  ///< (U - 1, T h) float32, likewise
  Tensor dkv;           ///< (U T 2k D): gradients of keys and values
  Tensor dkv_pieces;    ///< (U - 1, T 2k D): those that come back
  Tensor kv_sums;       ///< (2, T K D) float32, where these have to be summed and the compute dtype is another
};

class UlyssesAttention final : public SequenceAttention {
 public:
  UlyssesAttention(const UlyssesBuffers& buffers, const comm::Group& sp, device::Device& device, ops::Backend& backend,
                   comm::Collectives& collectives, device::Stream& ring_stream);

  void set_schedules(const sequence::AttentionSchedules& schedules) override;
  void forward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse) override;
  void backward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse, Tensor dout,
                const Heads& gradients) override;

 private:
  /// What the other ranks of the group and this one send each other.
  struct Messages {
    std::vector<comm::Message> sends, receives;
  };
  /// Queries, keys, values, dout and the output of one rank; once gathered, columns of the same rows.
  struct RankHeads {
    Heads heads;
    Tensor dout = {};  ///< empty in the forward pass
    Tensor out = {};   ///< empty where it is not brought
  };

  /// Columns in the order of RankHeads.
  [[nodiscard]] RankHeads split(const Tensor& rows) const;
  /// The slot of another rank in `pieces`, as (T, columns).
  [[nodiscard]] Tensor piece(const Tensor& pieces, NeighbourRank rank, std::int64_t columns) const;
  /// Brings all heads of this rank's tokens, `all`, to the ranks that attend with them, and delta, which may be empty,
  /// to inner_->delta(). All tokens with the heads of this rank.
  [[nodiscard]] RankHeads gather_tokens(const RankHeads& all, const Tensor& delta);
  /// The same for the backward pass: delta is formed here, or from the output where it arrives.
  [[nodiscard]] RankHeads gather_for_backward(const Heads& heads, const Tensor& out, const Tensor& dout);
  /// One column range of the heads of all tokens to one of all heads of this rank's tokens: into `pieces` from others.
  void add_returns(Messages& messages, const Tensor& all_tokens, const Tensor& pieces) const;
  /// What rank `rank` has made of this rank's tokens: in `pieces` or, its own, in `all_tokens`.
  [[nodiscard]] ChunkRows returned(const Tensor& all_tokens, const Tensor& pieces, NeighbourRank rank) const;
  /// Sums and writes what the ranks have made of the gradients of keys and values.
  void write_dkv(const Tensor& all_dkv, const Heads& gradients);
  void exchange(const Messages& messages);
  /// Those of the heads that this rank attends with, or of none.
  [[nodiscard]] Tensor sinks_of_rank(const Tensor& sinks) const {
    return sink_range(sinks, b_.assignment.q_begin(rank_), b_.assignment.q_heads());
  }
  [[nodiscard]] SpRank sp_rank(NeighbourRank rank) const { return SpRank::from(group_.rank() - rank_ + rank); }

  const UlyssesBuffers& b_;
  comm::Group group_;
  NeighbourRank rank_;
  ops::Backend& backend_;
  device::Timeline& timeline_;
  comm::Collectives& collectives_;
  device::Stream& ring_stream_;
  std::unique_ptr<InnerAttention> inner_;
  sequence::RowCut cut_;  ///< of the tokens of the group over its ranks
  std::unique_ptr<device::Event> compute_done_, exchange_done_;
};

}  // namespace sft::parallel
