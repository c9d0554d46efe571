// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ring attention (Liu et al. 2023): in round d every rank attends to the keys of the rank d places back while those of
// round d + 1 are under way; partial results merge in float32 by log-sum-exp. A chunk goes only to ranks with a query
// that sees one of its keys.

#include <array>
#include <vector>

#include "parallel/inner_attention.hpp"

namespace sft::parallel {

class RingBuffers final : public InnerBuffers {
 public:
  /// For a ring of `num_ranks` ranks of the sp group: those that the schedule names.
  RingBuffers(const SequenceShape& of, int num_ranks) : shape(of), ring_size(num_ranks) {}

  void lay_out(device::Arena& arena) override;
  [[nodiscard]] ops::AttentionNeeds attention_needs() const override;
  [[nodiscard]] std::unique_ptr<InnerAttention> make_inner(const comm::Group& sp, device::Device& device,
                                                           ops::Backend& backend, comm::Collectives& collectives,
                                                           device::Stream& ring_stream) const override;

  /// Views of what T = `num_tokens` tokens need: the shapes below are those of the most tokens.
  [[nodiscard]] RingBuffers first_rows(std::int64_t num_tokens) const;

  SequenceShape shape;
  int ring_size;
  Tensor packed_kv;  ///< (T, 2 K, D) compute dtype: keys, then values, so that the rows of a chunk lie together
  Tensor delta;      ///< (T, H) float32
  /// Float32 sums over the rounds, where the compute dtype is another: (T, H, D) of the output in the forward pass, of
  /// the gradient of the queries in the backward pass; (T, 2 K, D) of those of keys and values.
  Tensor q_sums, kv_sums;
  // (T, 2 K, D); two of each: one in use, one under way. Keys have the compute dtype, gradients are float32.
  std::array<Tensor, 2> received_kv, partial_dkv, returned_dkv;
};

class RingAttention final : public InnerAttention {
 public:
  RingAttention(const RingBuffers& buffers, const comm::Group& sp, device::Device& device, ops::Backend& backend,
                comm::Collectives& collectives, device::Stream& ring_stream);

  void set_schedules(const sequence::AttentionSchedules& schedules) override;
  void forward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse) override;
  [[nodiscard]] Tensor delta() const override { return b_.delta; }

 private:
  void backward_over_keys(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse, Tensor dout,
                          const Heads& gradients) override;

  struct Round {
    SpRank to, from;
    sequence::ChunkPair sends, receives;
    bool computes;
    std::unique_ptr<ops::AttentionPlan> plan;
  };
  using Rounds = std::vector<Round>;
  struct KeysValues {
    Tensor k, v;  ///< (T, K, D)
  };

  /// Keys, then values, of a (T, 2 K, D) tensor.
  [[nodiscard]] static KeysValues halves_of(const Tensor& kv);
  /// The rows of some chunks of a (T, ...) tensor, which are neighbours; empty for none.
  [[nodiscard]] static Tensor chunk_rows(const Tensor& rows, const sequence::ChunkPair& chunks);
  /// Copies this rank's keys and values to where they are sent from, if any round sends.
  void pack(const Rounds& rounds, const Heads& heads);
  /// Starts receiving the keys of round d, if there is one.
  void start_exchange(const Rounds& rounds, std::size_t d);
  /// Waits for the keys of round d, those of `heads` in round 0.
  [[nodiscard]] KeysValues keys_of(std::size_t d, const Heads& heads);
  /// Gives the keys' owner the part of its gradient that was formed in round d, and receives this rank's.
  void start_return(const Rounds& rounds, std::size_t d);
  /// Waits for this rank's part from round d and adds it.
  void add_returned(const Rounds& rounds, std::size_t d, const KeysValues& sums);

  const RingBuffers& all_;
  RingBuffers b_;  ///< for the tokens of the schedules
  comm::Group group_;
  device::Timeline& timeline_;
  comm::Collectives& collectives_;
  device::Stream& ring_stream_;
  IndexedVector<sequence::AttentionKind, Rounds> rounds_;
  std::array<std::unique_ptr<device::Event>, 2> kv_done_, dkv_done_;
  std::unique_ptr<device::Event> compute_done_;
};

}  // namespace sft::parallel
