// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention to gathered keys and values (as context parallelism in Llama 3, Llama Team 2024): some key/value heads at a
// time, a rank gathers those of the whole row, attends with the query heads that read them, and gives back the parts of
// their gradients that it formed. The next heads are gathered meanwhile. Chunks that no query of a rank sees are not
// sent to it.

#include <algorithm>
#include <array>
#include <memory>
#include <vector>

#include "parallel/chunk_rows.hpp"
#include "sft/parallel/sequence_attention.hpp"

namespace sft::parallel {

class AllGatherBuffers final : public SequenceBuffers {
 public:
  AllGatherBuffers(const SequenceShape& of, int num_ranks) : shape(of), sp_size(num_ranks) {}

  void lay_out(device::Arena& arena) override;
  /// A plan of each kind over the keys of all ranks; gradients of keys and values are float32 until they are summed.
  /// A library takes both passes, of the heads that are gathered at a time.
  [[nodiscard]] ops::AttentionNeeds attention_needs() const override;
  [[nodiscard]] std::unique_ptr<SequenceAttention> make_attention(const comm::Group& sp, device::Device& device,
                                                                  ops::Backend& backend, comm::Collectives& collectives,
                                                                  device::Stream& ring_stream) const override;

  /// Key/value heads that are gathered at a time, but for the last: about as much as the keys and values of all heads
  /// of this rank's tokens.
  [[nodiscard]] std::int64_t heads_at_once() const { return std::max<std::int64_t>(1, shape.kv_heads / sp_size); }

  SequenceShape shape;
  int sp_size;
  // L = sp_size T tokens of the row, g = heads_at_once(), h = g H / K. Two of each where one is in use and one under
  // way. Keys stand before values in every row.
  std::array<Tensor, 2> gathered_kv;  ///< (L 2g D) compute dtype
  std::array<Tensor, 2> partial_dkv;  ///< (L 2g D) float32: what this rank adds to the gradient of all keys and values
  Tensor returned_dkv;                ///< (sp_size - 1, T 2g D) float32: what the others add to those of this rank
  Tensor lse, delta;                  ///< (T h) float32
};

class AllGatherAttention final : public SequenceAttention {
 public:
  AllGatherAttention(const AllGatherBuffers& buffers, const comm::Group& sp, device::Device& device,
                     ops::Backend& backend, comm::Collectives& collectives, device::Stream& ring_stream);

  void set_schedules(const sequence::AttentionSchedules& schedules) override;
  void forward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse) override;
  void backward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse, Tensor dout,
                const Heads& gradients) override;

 private:
  /// Heads that are gathered and worked on together.
  struct HeadGroup {
    std::size_t slot;  ///< of the buffers that there are two of
    std::int64_t q_begin, q_count, kv_begin, kv_count;
  };
  /// What this rank exchanges with the ranks d places on and back.
  struct Round {
    SpRank to, from;
    sequence::ChunkPair sends, receives;
  };
  /// What attention of one kind does.
  struct Work {
    std::vector<Round> rounds;  ///< but the first, this rank's own
    std::unique_ptr<ops::AttentionPlan> plan;
  };
  struct KeysValues {
    Tensor k, v;
  };

  [[nodiscard]] std::vector<HeadGroup> head_groups() const;
  /// Keys, then values, of rows (n, 2 g D).
  [[nodiscard]] KeysValues split(const Tensor& rows, const HeadGroup& group) const;
  /// The beginning of a buffer as (num_tokens, 2 g D).
  [[nodiscard]] Tensor rows_of(const Tensor& buffer, const HeadGroup& group, std::int64_t num_tokens) const;
  void start_gather(const Work& work, const HeadGroup& group, const Heads& heads);
  [[nodiscard]] KeysValues finish_gather(const HeadGroup& group);
  /// Gives every rank the part of its gradient that this one has formed.
  void start_return(const Work& work, const HeadGroup& group);
  /// Waits for the parts of this rank's gradient and writes their sum.
  void finish_return(const Work& work, const HeadGroup& group, const Heads& gradients);

  const AllGatherBuffers& b_;
  comm::Group group_;
  ops::Backend& backend_;
  device::Timeline& timeline_;
  comm::Collectives& collectives_;
  device::Stream& ring_stream_;
  sequence::RowCut cut_;
  IndexedVector<sequence::AttentionKind, Work> works_;
  std::array<std::unique_ptr<device::Event>, 2> gathered_;
  std::unique_ptr<device::Event> compute_done_, returned_;
};

}  // namespace sft::parallel
