// SPDX-License-Identifier: Apache-2.0
#include "parallel/ring_attention.hpp"

#include <algorithm>
#include <utility>

#include "sft/core/ensure.hpp"

namespace sft::parallel {

namespace {

Tensor flat(const Tensor& x) { return x.view({x.num_elements()}); }

}  // namespace

void RingBuffers::lay_out(device::Arena& arena) {
  const auto take_kv = [&](DType dtype) {
    return take(arena, dtype, {2, shape.tokens, shape.kv_heads, shape.head_dim});
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

RingBuffers RingBuffers::first_rows(std::int64_t num_tokens) const {
  RingBuffers part = *this;
  const auto narrow = [&](Tensor& rows) {
    if (!rows.empty()) rows = rows.rows(0, num_tokens);
  };
  const auto narrow_kv = [&](Tensor& kv) {
    if (kv.empty()) return;
    const std::int64_t num_elements = 2 * num_tokens * shape.kv_heads * shape.head_dim;
    kv = flat(kv).rows(0, num_elements).view({2, num_tokens, shape.kv_heads, shape.head_dim});
  };
  narrow(part.delta);
  narrow(part.q_sums);
  narrow_kv(part.packed_kv);
  narrow_kv(part.kv_sums);
  for (auto* pair : {&part.received_kv, &part.partial_dkv, &part.returned_dkv}) std::ranges::for_each(*pair, narrow_kv);
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
      rounds.push_back({round.to, round.from, round.sends.any(), round.receives.any(), !round.spans.empty(),
                        backend_.plan_attention(round.spans, num_tokens, num_tokens)});
    }
    rounds_.push_back(std::move(rounds));
  }
}

RingAttention::KeysValues RingAttention::halves_of(const Tensor& kv) {
  const auto half = [&](std::int64_t i) { return kv.rows(i, 1).view({kv.shape[1], kv.shape[2], kv.shape[3]}); };
  return {half(0), half(1)};
}

void RingAttention::pack(const Rounds& rounds, const Heads& heads) {
  if (std::ranges::none_of(rounds, &Round::sends)) return;
  const KeysValues packed = halves_of(b_.packed_kv);
  backend_.copy(packed.k, heads.k);
  backend_.copy(packed.v, heads.v);
}

void RingAttention::start_exchange(const Rounds& rounds, std::size_t d) {
  if (d >= rounds.size()) return;
  const Round& round = rounds[d];
  // The buffer's last reader, two rounds ago, must be done; so must be the writer of this rank's keys.
  compute_done_->record(backend_.stream());
  ring_stream_.wait(*compute_done_);
  collectives_.exchange(group_, round.sends ? flat(b_.packed_kv) : Tensor(), round.to,
                        round.receives ? flat(b_.received_kv[d % 2]) : Tensor(), round.from, ring_stream_);
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
    backend_.attention_forward({.q = heads.q,
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
  if (!b_.q_sums.empty()) backend_.copy(out, b_.q_sums);
}

void RingAttention::backward_over_keys(sequence::AttentionKind kind, const Heads& heads, Tensor lse, Tensor dout,
                                       const Heads& gradients) {
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
      backend_.attention_backward({.q = heads.q,
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
                                   .softcap = b_.shape.softcap});
    }
    if (is_first) continue;
    start_return(rounds, d);
    if (d > 1) add_returned(rounds, d - 1, own);
  }
  if (rounds.size() > 1) add_returned(rounds, rounds.size() - 1, own);
  if (b_.q_sums.empty()) return;
  backend_.copy(gradients.q, b_.q_sums);
  backend_.copy(gradients.k, own.k);
  backend_.copy(gradients.v, own.v);
}

void RingAttention::start_return(const Rounds& rounds, std::size_t d) {
  const Round& round = rounds[d];
  compute_done_->record(backend_.stream());
  ring_stream_.wait(*compute_done_);
  // The keys that this rank sent in round d were used by `to`.
  collectives_.exchange(group_, round.receives ? flat(b_.partial_dkv[d % 2]) : Tensor(), round.from,
                        round.sends ? flat(b_.returned_dkv[d % 2]) : Tensor(), round.to, ring_stream_);
  dkv_done_[d % 2]->record(ring_stream_);
}

void RingAttention::add_returned(const Rounds& rounds, std::size_t d, const KeysValues& sums) {
  device::timed_wait(timeline_, backend_.stream(), *dkv_done_[d % 2], "wait for gradients of keys");
  if (!rounds[d].sends) return;
  const KeysValues returned = halves_of(b_.returned_dkv[d % 2]);
  backend_.add(sums.k, returned.k);
  backend_.add(sums.v, returned.v);
}

}  // namespace sft::parallel
