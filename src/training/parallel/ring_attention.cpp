// SPDX-License-Identifier: Apache-2.0
#include "parallel/ring_attention.hpp"

#include <algorithm>
#include <utility>

#include "parallel/chunk_rows.hpp"
#include "sft/core/ensure.hpp"

namespace sft::parallel {

void RingBuffers::lay_out(device::Arena& arena) {
  const auto take_kv = [&](DType dtype) {
    return take(arena, dtype, {shape.tokens, 2 * shape.kv_heads, shape.head_dim});
  };
  packed_kv = take_kv(shape.compute);
  delta = take(arena, DType::float32, {shape.tokens, shape.q_heads});
  if (shape.compute != DType::float32) {
    q_sums = take(arena, DType::float32, {shape.tokens, shape.q_heads, shape.head_dim});
    kv_sums = take_kv(DType::float32);
  }
  for (std::size_t i = 0; i < 2; ++i) {
    received_kv[i] = take_kv(shape.compute);
    partial_dkv[i] = take_kv(DType::float32);
    returned_dkv[i] = take_kv(DType::float32);
  }
}

// A plan for each round of each kind; all sums are float32 tensors of its own. A library takes whole documents and
// rectangles: what it leaves of a round is a plan more, and the first round may have both.
ops::AttentionNeeds RingBuffers::attention_needs() const {
  ops::AttentionNeeds needs{
      .num_kinds = shape.num_kinds, .num_plans = ring_size, .plan_queries = shape.tokens, .plan_keys = shape.tokens};
  if (shape.compute == DType::float32 || !ops::is_of_library(shape.kernels)) return needs;
  needs.num_plans += ring_size + 1;
  needs.library = {.tokens = shape.tokens,
                   .q_heads = shape.q_heads,
                   .kv_heads = shape.kv_heads,
                   .head_dim = shape.head_dim,
                   .has_backward = shape.has_library_backward(),
                   .merges = true};
  return needs;
}

RingBuffers RingBuffers::first_rows(std::int64_t num_tokens) const {
  RingBuffers part = *this;
  const auto narrow = [&](Tensor& rows) {
    if (!rows.empty()) rows = rows.rows(0, num_tokens);
  };
  narrow(part.delta);
  narrow(part.q_sums);
  narrow(part.packed_kv);
  narrow(part.kv_sums);
  for (auto* pair : {&part.received_kv, &part.partial_dkv, &part.returned_dkv}) std::ranges::for_each(*pair, narrow);
  return part;
}

std::unique_ptr<InnerAttention> RingBuffers::make_inner(const comm::Group& sp, device::Device& device,
                                                        ops::Backend& backend, comm::Collectives& collectives,
                                                        device::Stream& ring_stream) const {
  return std::make_unique<RingAttention>(*this, sp, device, backend, collectives, ring_stream);
}

RingAttention::RingAttention(const RingBuffers& buffers, const comm::Group& sp, device::Device& device,
                             ops::Backend& backend, comm::Collectives& collectives, device::Stream& ring_stream)
    : InnerAttention(backend),
      all_(buffers),
      b_(buffers),
      group_(sp),
      timeline_(device.timeline()),
      collectives_(collectives),
      ring_stream_(ring_stream),
      compute_done_(device.make_event()) {
  for (auto& event : kv_done_) event = device.make_event();
  for (auto& event : dkv_done_) event = device.make_event();
}

void RingAttention::set_schedules(const sequence::AttentionSchedules& schedules) {
  const std::int64_t num_tokens = num_tokens_of(schedules, all_.shape);
  b_ = all_.first_rows(num_tokens);
  rounds_.clear();
  for (const sequence::AttentionSchedule& schedule : schedules) {
    SFT_ENSURE(schedule.rounds.size() == b_.ring_size, "the ring has one round for each rank");
    Rounds rounds;
    for (const sequence::AttentionRound& round : schedule.rounds) {
      rounds.push_back({round.to, round.from, round.sends, round.receives, !round.spans.empty(),
                        backend_.plan_attention(round.spans, num_tokens, num_tokens)});
    }
    rounds_.push_back(std::move(rounds));
  }
}

RingAttention::KeysValues RingAttention::halves_of(const Tensor& kv) {
  const std::int64_t num_heads = kv.shape[1] / 2;
  return {head_range(kv, 0, num_heads), head_range(kv, num_heads, num_heads)};
}

Tensor RingAttention::chunk_rows(const Tensor& rows, const sequence::ChunkPair& chunks) {
  if (!chunks.any()) return {};
  const std::int64_t chunk_tokens = rows.shape[0] / 2;
  return rows.rows(chunks.front ? 0 : chunk_tokens, chunks.front && chunks.back ? 2 * chunk_tokens : chunk_tokens);
}

void RingAttention::pack(const Rounds& rounds, const Heads& heads) {
  if (std::ranges::none_of(rounds, [](const Round& round) { return round.sends.any(); })) return;
  const KeysValues packed = halves_of(b_.packed_kv);
  backend_.run(ops::Copy{packed.k, heads.k});
  backend_.run(ops::Copy{packed.v, heads.v});
}

void RingAttention::start_exchange(const Rounds& rounds, std::size_t d) {
  if (d >= rounds.size()) return;
  const Round& round = rounds[d];
  // The buffer's last reader, two rounds ago, must be done; so must be the writer of this rank's keys.
  compute_done_->record(backend_.stream());
  ring_stream_.wait(*compute_done_);
  collectives_.exchange(group_, chunk_rows(b_.packed_kv, round.sends), round.to,
                        chunk_rows(b_.received_kv[d % 2], round.receives), round.from, ring_stream_);
  kv_done_[d % 2]->record(ring_stream_);
}

RingAttention::KeysValues RingAttention::keys_of(std::size_t d, const Heads& heads) {
  if (d == 0) return {heads.k, heads.v};
  device::timed_wait(timeline_, backend_.stream(), *kv_done_[d % 2], "wait for keys");
  return halves_of(b_.received_kv[d % 2]);
}

void RingAttention::forward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse) {
  const Tensor sums = b_.q_sums.empty() ? out : b_.q_sums;
  const Rounds& rounds = rounds_[kind];
  pack(rounds, heads);
  for (std::size_t d = 0; d < rounds.size(); ++d) {
    start_exchange(rounds, d + 1);
    const KeysValues keys = keys_of(d, heads);
    const bool is_first = d == 0;
    if (!is_first && !rounds[d].computes) continue;
    backend_.run(ops::AttentionForward{.q = heads.q,
                                       .k = keys.k,
                                       .v = keys.v,
                                       .out = sums,
                                       .lse = lse,
                                       .scale = b_.shape.scale(),
                                       .plan = *rounds[d].plan,
                                       .merge = !is_first,
                                       .softcap = b_.shape.softcap,
                                       .sinks = is_first ? heads.sinks : Tensor()});
  }
  if (!b_.q_sums.empty()) backend_.run(ops::Copy{out, b_.q_sums});
}

void RingAttention::backward_over_keys(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse,
                                       Tensor dout, const Heads& gradients) {
  const Tensor dq = b_.q_sums.empty() ? gradients.q : b_.q_sums;
  const KeysValues own = b_.kv_sums.empty() ? KeysValues{gradients.k, gradients.v} : halves_of(b_.kv_sums);
  const Rounds& rounds = rounds_[kind];
  pack(rounds, heads);
  for (std::size_t d = 0; d < rounds.size(); ++d) {
    start_exchange(rounds, d + 1);
    const KeysValues keys = keys_of(d, heads);
    const bool is_first = d == 0;
    if (is_first || rounds[d].computes) {
      const KeysValues sums = is_first ? own : halves_of(b_.partial_dkv[d % 2]);
      backend_.run(ops::AttentionBackward{.q = heads.q,
                                          .k = keys.k,
                                          .v = keys.v,
                                          .dout = dout,
                                          .lse = lse,
                                          .delta = b_.delta,
                                          .dq = dq,
                                          .dk = sums.k,
                                          .dv = sums.v,
                                          .scale = b_.shape.scale(),
                                          .plan = *rounds[d].plan,
                                          .accumulate_dq = !is_first,
                                          .softcap = b_.shape.softcap,
                                          .out = b_.shape.has_library_backward() ? out : Tensor()});
    }
    if (is_first) continue;
    start_return(rounds, d);
    if (d > 1) add_returned(rounds, d - 1, own);
  }
  if (rounds.size() > 1) add_returned(rounds, rounds.size() - 1, own);
  if (b_.q_sums.empty()) return;
  backend_.run(ops::Copy{gradients.q, b_.q_sums});
  backend_.run(ops::Copy{gradients.k, own.k});
  backend_.run(ops::Copy{gradients.v, own.v});
}

void RingAttention::start_return(const Rounds& rounds, std::size_t d) {
  const Round& round = rounds[d];
  compute_done_->record(backend_.stream());
  ring_stream_.wait(*compute_done_);
  // The keys that this rank sent in round d were used by `to`.
  collectives_.exchange(group_, chunk_rows(b_.partial_dkv[d % 2], round.receives), round.from,
                        chunk_rows(b_.returned_dkv[d % 2], round.sends), round.to, ring_stream_);
  dkv_done_[d % 2]->record(ring_stream_);
}

void RingAttention::add_returned(const Rounds& rounds, std::size_t d, const KeysValues& sums) {
  device::timed_wait(timeline_, backend_.stream(), *dkv_done_[d % 2], "wait for gradients of keys");
  const sequence::ChunkPair& chunks = rounds[d].sends;
  if (!chunks.any()) return;
  const KeysValues returned = halves_of(chunk_rows(b_.returned_dkv[d % 2], chunks));
  backend_.run(ops::Add{chunk_rows(sums.k, chunks), returned.k});
  backend_.run(ops::Add{chunk_rows(sums.v, chunks), returned.v});
}

}  // namespace sft::parallel
