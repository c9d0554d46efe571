// SPDX-License-Identifier: Apache-2.0
#include "parallel/ulysses_attention.hpp"

#include <numeric>

#include "sft/core/ensure.hpp"

namespace sft::parallel {

HeadAssignment::HeadAssignment(std::int64_t num_q_heads, std::int64_t num_kv_heads, int size) : size_(size) {
  SFT_ENSURE(num_q_heads % size == 0, "the ranks that exchange heads divide the query heads");
  q_heads_ = num_q_heads / size;
  q_per_original_kv_ = num_q_heads / num_kv_heads;
  q_per_kv_ = std::gcd(q_heads_, q_per_original_kv_);
}

namespace {

SequenceShape inner_shape(const SequenceShape& shape, const HeadAssignment& assignment) {
  SequenceShape inner = shape;
  inner.tokens = shape.tokens * assignment.size();
  inner.q_heads = assignment.q_heads();
  inner.kv_heads = assignment.kv_heads();
  inner.gradient_row = inner.q_heads * inner.head_dim;
  return inner;
}

}  // namespace

UlyssesBuffers::UlyssesBuffers(const SequenceShape& of, int sp_size, int ulysses_size)
    : shape(of),
      assignment(of.q_heads, of.kv_heads, ulysses_size),
      dkv_dtype(assignment.replicates() ? DType::float32 : of.compute),
      inner(make_inner_buffers(inner_shape(of, assignment), sp_size / ulysses_size)),
      brings_output(inner->attention_needs().library.has_backward) {
  SFT_ENSURE(sp_size % ulysses_size == 0, "ulysses_size divides sp_size");
}

void UlyssesBuffers::lay_out(device::Arena& arena) {
  const std::int64_t t = shape.tokens, d = shape.head_dim, h = assignment.q_heads(), k = assignment.kv_heads(),
                     u = assignment.size();
  const std::int64_t columns = ((brings_output ? 3 : 2) * h + 2 * k) * d;
  inner->lay_out(arena);
  pieces = take(arena, shape.compute, {u - 1, t * columns});
  tokens = take(arena, shape.compute, {u * t * columns});
  result = take(arena, shape.compute, {u * t * h * d});
  if (!brings_output) {
    delta = take(arena, DType::float32, {t, shape.q_heads});
    delta_pieces = take(arena, DType::float32, {u - 1, t * h});
  }
  dkv = take(arena, dkv_dtype, {u * t * 2 * k * d});
  dkv_pieces = take(arena, dkv_dtype, {u - 1, t * 2 * k * d});
  if (assignment.replicates() && shape.compute != DType::float32) {
    kv_sums = take(arena, DType::float32, {2, t * shape.kv_heads * d});
  }
}

ops::AttentionNeeds UlyssesBuffers::attention_needs() const {
  ops::AttentionNeeds needs = inner->attention_needs();
  if (dkv_dtype == DType::float32) needs.num_keys = needs.longest_lane = 0;
  return needs;
}

std::unique_ptr<SequenceAttention> UlyssesBuffers::make_attention(const comm::Group& sp, device::Device& device,
                                                                  ops::Backend& backend, comm::Collectives& collectives,
                                                                  device::Stream& ring_stream) const {
  return std::make_unique<UlyssesAttention>(*this, sp, device, backend, collectives, ring_stream);
}

UlyssesAttention::UlyssesAttention(const UlyssesBuffers& buffers, const comm::Group& sp, device::Device& device,
                                   ops::Backend& backend, comm::Collectives& collectives, device::Stream& ring_stream)
    : b_(buffers),
      group_(sp),
      rank_(NeighbourRank::from(sp.rank() % buffers.assignment.size())),
      backend_(backend),
      timeline_(device.timeline()),
      collectives_(collectives),
      ring_stream_(ring_stream),
      inner_(buffers.inner->make_inner(sp, device, backend, collectives, ring_stream)),
      cut_(0, buffers.assignment.size()),
      compute_done_(device.make_event()),
      exchange_done_(device.make_event()) {}

void UlyssesAttention::set_schedules(const sequence::AttentionSchedules& schedules) {
  inner_->set_schedules(schedules);
  cut_ = sequence::RowCut(num_tokens_of(schedules, b_.shape), b_.assignment.size());
}

UlyssesAttention::RankHeads UlyssesAttention::split(const Tensor& rows) const {
  const std::int64_t h = b_.assignment.q_heads(), k = b_.assignment.kv_heads(), head_dim = b_.shape.head_dim;
  const Tensor all = rows.view({rows.shape[0], rows.shape[1] / head_dim, head_dim});
  RankHeads own{{head_range(all, 0, h), head_range(all, h, k), head_range(all, h + k, k)}};
  if (all.shape[1] > h + 2 * k) own.dout = head_range(all, h + 2 * k, h);
  if (all.shape[1] > 2 * h + 2 * k) own.out = head_range(all, 2 * h + 2 * k, h);
  return own;
}

Tensor UlyssesAttention::piece(const Tensor& pieces, NeighbourRank rank, std::int64_t columns) const {
  const int index = static_cast<int>(rank) - (rank < rank_ ? 0 : 1);  // there is none for this rank itself
  return at_begin_of(pieces.rows(index, 1), {cut_.local_length(), columns});
}

UlyssesAttention::RankHeads UlyssesAttention::gather_tokens(const RankHeads& all, const Tensor& delta) {
  const HeadAssignment& assignment = b_.assignment;
  const std::int64_t h = assignment.q_heads(), k = assignment.kv_heads();
  const std::int64_t times_h = 1 + (all.dout.empty() ? 0 : 1) + (all.out.empty() ? 0 : 1);
  const std::int64_t columns = (times_h * h + 2 * k) * b_.shape.head_dim;
  const Tensor all_tokens = at_begin_of(b_.tokens, {cut_.length(), columns});
  const Tensor all_delta = inner_->delta();
  Messages messages;
  for (const NeighbourRank rank : assignment.ranks()) {
    const bool is_own = rank == rank_;
    const Tensor part = is_own ? Tensor() : piece(b_.pieces, rank, columns);
    const Tensor delta_part = is_own || delta.empty() ? Tensor() : piece(b_.delta_pieces, rank, h);
    const ChunkRows destination = is_own ? chunks_in_row(all_tokens, cut_, rank) : chunks_in_part(part, cut_, rank);
    const auto source = [&](const Tensor& x) { return chunks_in_part(x, cut_, rank_); };
    for (std::size_t c = 0; c < destination.size(); ++c) {
      const RankHeads to = split(destination[c]);
      const auto put = [&](const Tensor& to_heads, const Tensor& from, std::int64_t begin) {
        if (!from.empty()) backend_.run(ops::Copy{to_heads, head_range(source(from)[c], begin, to_heads.shape[1])});
      };
      put(to.heads.q, all.heads.q, assignment.q_begin(rank));
      for (std::int64_t i = 0; i < k; ++i) {
        put(head_range(to.heads.k, i, 1), all.heads.k, assignment.kv_head(rank, i));
        put(head_range(to.heads.v, i, 1), all.heads.v, assignment.kv_head(rank, i));
      }
      put(to.dout, all.dout, assignment.q_begin(rank));
      put(to.out, all.out, assignment.q_begin(rank));
      if (delta.empty()) continue;
      const Tensor to_delta =
          (is_own ? chunks_in_row(all_delta, cut_, rank) : chunks_in_part(delta_part, cut_, rank))[c];
      backend_.run(ops::Copy{to_delta, source(delta)[c].columns(assignment.q_begin(rank), h)});
    }
    if (is_own) continue;
    add_messages(messages.sends, destination, sp_rank(rank));
    add_messages(messages.receives, chunks_in_row(all_tokens, cut_, rank), sp_rank(rank));
    if (delta.empty()) continue;
    add_messages(messages.sends, chunks_in_part(delta_part, cut_, rank), sp_rank(rank));
    add_messages(messages.receives, chunks_in_row(all_delta, cut_, rank), sp_rank(rank));
  }
  exchange(messages);
  return split(all_tokens);
}

UlyssesAttention::RankHeads UlyssesAttention::gather_for_backward(const Heads& heads, const Tensor& out,
                                                                  const Tensor& dout) {
  if (b_.brings_output) {
    const RankHeads own = gather_tokens({heads, dout, out}, {});
    backend_.run(ops::AttentionDelta{inner_->delta(), own.out, own.dout});
    return own;
  }
  const Tensor delta = b_.delta.rows(0, cut_.local_length());
  backend_.run(ops::AttentionDelta{delta, out, dout});
  return gather_tokens({heads, dout}, delta);
}

void UlyssesAttention::add_returns(Messages& messages, const Tensor& all_tokens, const Tensor& pieces) const {
  for (const NeighbourRank rank : b_.assignment.ranks()) {
    if (rank == rank_) continue;
    add_messages(messages.sends, chunks_in_row(all_tokens, cut_, rank), sp_rank(rank));
    add_messages(messages.receives, returned(all_tokens, pieces, rank), sp_rank(rank));
  }
}

ChunkRows UlyssesAttention::returned(const Tensor& all_tokens, const Tensor& pieces, NeighbourRank rank) const {
  if (rank == rank_) return chunks_in_row(all_tokens, cut_, rank);
  return chunks_in_part(piece(pieces, rank, all_tokens.shape[1]), cut_, rank);
}

void UlyssesAttention::exchange(const Messages& messages) {
  compute_done_->record(backend_.stream());
  ring_stream_.wait(*compute_done_);
  collectives_.exchange_all(group_, messages.sends, messages.receives, ring_stream_);
  exchange_done_->record(ring_stream_);
  device::timed_wait(timeline_, backend_.stream(), *exchange_done_, "wait for heads");
}

void UlyssesAttention::forward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse) {
  const std::int64_t h = b_.assignment.q_heads(), head_dim = b_.shape.head_dim;
  const RankHeads own = gather_tokens({heads}, {});
  const Tensor result = at_begin_of(b_.result, {cut_.length(), h * head_dim});
  Heads inner_heads = own.heads;
  inner_heads.sinks = sinks_of_rank(heads.sinks);
  inner_->forward(kind, inner_heads, result.view({cut_.length(), h, head_dim}), lse.view({cut_.length(), h}));
  Messages messages;
  add_returns(messages, result, b_.pieces);
  exchange(messages);
  for (const NeighbourRank rank : b_.assignment.ranks()) {
    const ChunkRows from = returned(result, b_.pieces, rank), to = chunks_in_part(out, cut_, rank_);
    for (std::size_t c = 0; c < to.size(); ++c) {
      const Tensor heads_of_rank = head_range(to[c], b_.assignment.q_begin(rank), h);
      backend_.run(ops::Copy{heads_of_rank, from[c].view({from[c].shape[0], h, head_dim})});
    }
  }
}

void UlyssesAttention::backward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse, Tensor dout,
                                const Heads& gradients) {
  const std::int64_t h = b_.assignment.q_heads(), k = b_.assignment.kv_heads(), head_dim = b_.shape.head_dim;
  const RankHeads own = gather_for_backward(heads, out, dout);
  const Tensor dq = at_begin_of(b_.result, {cut_.length(), h * head_dim});
  const Tensor dkv = at_begin_of(b_.dkv, {cut_.length(), 2 * k * head_dim});
  const Tensor dkv_heads = dkv.view({cut_.length(), 2 * k, head_dim});
  Heads inner_heads = own.heads;
  inner_heads.sinks = sinks_of_rank(heads.sinks);
  inner_->backward_from_delta(kind, inner_heads, own.out, lse.view({cut_.length(), h}), own.dout,
                              {.q = dq.view({cut_.length(), h, head_dim}),
                               .k = head_range(dkv_heads, 0, k),
                               .v = head_range(dkv_heads, k, k),
                               .sinks = sinks_of_rank(gradients.sinks)});
  Messages messages;
  add_returns(messages, dq, b_.pieces);
  add_returns(messages, dkv, b_.dkv_pieces);
  exchange(messages);
  for (const NeighbourRank rank : b_.assignment.ranks()) {
    const ChunkRows from = returned(dq, b_.pieces, rank), to = chunks_in_part(gradients.q, cut_, rank_);
    for (std::size_t c = 0; c < to.size(); ++c) {
      const Tensor heads_of_rank = head_range(to[c], b_.assignment.q_begin(rank), h);
      backend_.run(ops::Copy{heads_of_rank, from[c].view({from[c].shape[0], h, head_dim})});
    }
  }
  write_dkv(dkv, gradients);
}

void UlyssesAttention::write_dkv(const Tensor& all_dkv, const Heads& gradients) {
  const std::int64_t k = b_.assignment.kv_heads(), head_dim = b_.shape.head_dim;
  Heads sums = gradients;
  if (!b_.kv_sums.empty()) {
    const std::int64_t num_tokens = cut_.local_length(), kv_heads = b_.shape.kv_heads;
    sums.k = at_begin_of(b_.kv_sums.rows(0, 1), {num_tokens, kv_heads, head_dim});
    sums.v = at_begin_of(b_.kv_sums.rows(1, 1), {num_tokens, kv_heads, head_dim});
  }
  std::vector<bool> is_begun(b_.shape.kv_heads);
  const auto put = [&](const Tensor& to, const Tensor& from, bool adds) {
    if (adds) {
      backend_.run(ops::Add{to, from});
    } else {
      backend_.run(ops::Copy{to, from});
    }
  };
  for (const NeighbourRank rank : b_.assignment.ranks()) {
    const ChunkRows from = returned(all_dkv, b_.dkv_pieces, rank);
    for (std::int64_t i = 0; i < k; ++i) {
      const std::int64_t head = b_.assignment.kv_head(rank, i);
      const bool adds = is_begun[head];
      for (std::size_t c = 0; c < from.size(); ++c) {
        const Tensor heads = from[c].view({from[c].shape[0], 2 * k, head_dim});
        put(head_range(chunks_in_part(sums.k, cut_, rank_)[c], head, 1), head_range(heads, i, 1), adds);
        put(head_range(chunks_in_part(sums.v, cut_, rank_)[c], head, 1), head_range(heads, k + i, 1), adds);
      }
      is_begun[head] = true;
    }
  }
  if (b_.kv_sums.empty()) return;
  backend_.run(ops::Copy{gradients.k, sums.k});
  backend_.run(ops::Copy{gradients.v, sums.v});
}

}  // namespace sft::parallel
