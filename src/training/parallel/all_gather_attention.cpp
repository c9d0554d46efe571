// SPDX-License-Identifier: Apache-2.0
#include "parallel/all_gather_attention.hpp"

#include <algorithm>
#include <utility>

#include "sft/core/ensure.hpp"

namespace sft::parallel {

namespace {

void add_messages(std::vector<comm::Message>& messages, const ChunkRows& chunks, sequence::ChunkPair which,
                  SpRank rank) {
  if (which.front) messages.push_back({chunks.front(), rank});
  if (which.back) messages.push_back({chunks.back(), rank});
}

}  // namespace

void AllGatherBuffers::lay_out(device::Arena& arena) {
  const std::int64_t g = heads_at_once(), kv_columns = 2 * g * shape.head_dim;
  const std::int64_t h = g * (shape.q_heads / shape.kv_heads), row_tokens = sp_size * shape.tokens;
  const std::size_t num_slots = g < shape.kv_heads ? 2 : 1;
  for (std::size_t i = 0; i < num_slots; ++i) {
    gathered_kv[i] = take(arena, shape.compute, {row_tokens * kv_columns});
    partial_dkv[i] = take(arena, DType::float32, {row_tokens * kv_columns});
  }
  returned_dkv = take(arena, DType::float32, {sp_size - 1, shape.tokens * kv_columns});
  lse = take(arena, DType::float32, {shape.tokens * h});
  delta = take(arena, DType::float32, {shape.tokens * h});
}

ops::AttentionNeeds AllGatherBuffers::attention_needs() const {
  ops::AttentionNeeds needs{
      .num_kinds = shape.num_kinds, .plan_queries = shape.tokens, .plan_keys = sp_size * shape.tokens};
  if (shape.compute == DType::float32 || !ops::is_of_library(shape.kernels)) return needs;
  const std::int64_t g = heads_at_once();
  needs.library = {.tokens = shape.tokens,
                   .key_tokens = sp_size * shape.tokens,
                   .q_heads = g * (shape.q_heads / shape.kv_heads),
                   .kv_heads = g,
                   .head_dim = shape.head_dim,
                   .has_backward = shape.has_library_backward()};
  return needs;
}

std::unique_ptr<SequenceAttention> AllGatherBuffers::make_attention(const comm::Group& sp, device::Device& device,
                                                                    ops::Backend& backend,
                                                                    comm::Collectives& collectives,
                                                                    device::Stream& ring_stream) const {
  return std::make_unique<AllGatherAttention>(*this, sp, device, backend, collectives, ring_stream);
}

AllGatherAttention::AllGatherAttention(const AllGatherBuffers& buffers, const comm::Group& sp, device::Device& device,
                                       ops::Backend& backend, comm::Collectives& collectives,
                                       device::Stream& ring_stream)
    : b_(buffers),
      group_(sp),
      backend_(backend),
      timeline_(device.timeline()),
      collectives_(collectives),
      ring_stream_(ring_stream),
      cut_(0, buffers.sp_size),
      compute_done_(device.make_event()),
      returned_(device.make_event()) {
  for (auto& event : gathered_) event = device.make_event();
}

void AllGatherAttention::set_schedules(const sequence::AttentionSchedules& schedules) {
  cut_ = sequence::RowCut(num_tokens_of(schedules, b_.shape) * b_.sp_size, b_.sp_size);
  works_.clear();
  for (const sequence::AttentionSchedule& schedule : schedules) {
    SFT_ENSURE(schedule.rounds.size() == b_.sp_size, "keys are gathered from every rank");
    Work work;
    work.plan = backend_.plan_attention(schedule.rounds.front().spans, cut_.local_length(), cut_.length());
    for (const sequence::AttentionRound& round : schedule.rounds) {
      if (round.to != group_.rank()) work.rounds.push_back({round.to, round.from, round.sends, round.receives});
    }
    works_.push_back(std::move(work));
  }
}

std::vector<AllGatherAttention::HeadGroup> AllGatherAttention::head_groups() const {
  const std::int64_t kv_heads = b_.shape.kv_heads, q_per_kv = b_.shape.q_heads / kv_heads;
  std::vector<HeadGroup> groups;
  for (std::int64_t begin = 0; begin < kv_heads; begin += b_.heads_at_once()) {
    const std::int64_t count = std::min(b_.heads_at_once(), kv_heads - begin);
    groups.push_back({groups.size() % 2, begin * q_per_kv, count * q_per_kv, begin, count});
  }
  return groups;
}

AllGatherAttention::KeysValues AllGatherAttention::split(const Tensor& rows, const HeadGroup& group) const {
  const Tensor heads = rows.view({rows.shape[0], 2 * group.kv_count, b_.shape.head_dim});
  return {head_range(heads, 0, group.kv_count), head_range(heads, group.kv_count, group.kv_count)};
}

Tensor AllGatherAttention::rows_of(const Tensor& buffer, const HeadGroup& group, std::int64_t num_tokens) const {
  return at_begin_of(buffer, {num_tokens, 2 * group.kv_count * b_.shape.head_dim});
}

void AllGatherAttention::start_gather(const Work& work, const HeadGroup& group, const Heads& heads) {
  const Tensor row = rows_of(b_.gathered_kv[group.slot], group, cut_.length());
  const int rank = group_.rank();
  const ChunkRows own = chunks_in_row(row, cut_, rank);
  const ChunkRows keys = chunks_in_part(head_range(heads.k, group.kv_begin, group.kv_count), cut_, rank);
  const ChunkRows values = chunks_in_part(head_range(heads.v, group.kv_begin, group.kv_count), cut_, rank);
  for (std::size_t c = 0; c < own.size(); ++c) {
    const KeysValues to = split(own[c], group);
    backend_.run(ops::Copy{to.k, keys[c]});
    backend_.run(ops::Copy{to.v, values[c]});
  }
  std::vector<comm::Message> sends, receives;
  for (const Round& round : work.rounds) {
    add_messages(sends, own, round.sends, round.to);
    add_messages(receives, chunks_in_row(row, cut_, round.from), round.receives, round.from);
  }
  // The buffer's last reader must be done, and so must be the writer of this rank's part.
  compute_done_->record(backend_.stream());
  ring_stream_.wait(*compute_done_);
  collectives_.exchange_all(group_, sends, receives, ring_stream_);
  gathered_[group.slot]->record(ring_stream_);
}

AllGatherAttention::KeysValues AllGatherAttention::finish_gather(const HeadGroup& group) {
  device::timed_wait(timeline_, backend_.stream(), *gathered_[group.slot], "wait for keys");
  return split(rows_of(b_.gathered_kv[group.slot], group, cut_.length()), group);
}

void AllGatherAttention::forward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse) {
  const Work& work = works_[kind];
  const std::vector<HeadGroup> groups = head_groups();
  start_gather(work, groups.front(), heads);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const HeadGroup& group = groups[i];
    if (i + 1 < groups.size()) start_gather(work, groups[i + 1], heads);
    const KeysValues keys = finish_gather(group);
    const Tensor group_lse = at_begin_of(b_.lse, {cut_.local_length(), group.q_count});
    backend_.run(ops::AttentionForward{.q = head_range(heads.q, group.q_begin, group.q_count),
                                       .k = keys.k,
                                       .v = keys.v,
                                       .out = head_range(out, group.q_begin, group.q_count),
                                       .lse = group_lse,
                                       .scale = b_.shape.scale(),
                                       .plan = *work.plan,
                                       .softcap = b_.shape.softcap,
                                       .sinks = sink_range(heads.sinks, group.q_begin, group.q_count)});
    backend_.run(ops::Copy{lse.columns(group.q_begin, group.q_count), group_lse});
  }
}

void AllGatherAttention::backward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse, Tensor dout,
                                  const Heads& gradients) {
  const Work& work = works_[kind];
  const std::vector<HeadGroup> groups = head_groups();
  start_gather(work, groups.front(), heads);
  for (std::size_t i = 0; i < groups.size(); ++i) {
    const HeadGroup& group = groups[i];
    if (i + 1 < groups.size()) start_gather(work, groups[i + 1], heads);
    const auto queries_of = [&](const Tensor& x) { return head_range(x, group.q_begin, group.q_count); };
    const Tensor group_lse = at_begin_of(b_.lse, {cut_.local_length(), group.q_count});
    const Tensor group_delta = at_begin_of(b_.delta, {cut_.local_length(), group.q_count});
    backend_.run(ops::Copy{group_lse, lse.columns(group.q_begin, group.q_count)});
    backend_.run(ops::AttentionDelta{group_delta, queries_of(out), queries_of(dout)});
    if (!gradients.sinks.empty()) {
      backend_.run(ops::AttentionSinksBackward{.dsinks = sink_range(gradients.sinks, group.q_begin, group.q_count),
                                               .sinks = sink_range(heads.sinks, group.q_begin, group.q_count),
                                               .lse = group_lse,
                                               .delta = group_delta});
    }
    const KeysValues keys = finish_gather(group);
    const KeysValues partial = split(rows_of(b_.partial_dkv[group.slot], group, cut_.length()), group);
    backend_.run(ops::AttentionBackward{.q = queries_of(heads.q),
                                        .k = keys.k,
                                        .v = keys.v,
                                        .dout = queries_of(dout),
                                        .lse = group_lse,
                                        .delta = group_delta,
                                        .dq = queries_of(gradients.q),
                                        .dk = partial.k,
                                        .dv = partial.v,
                                        .scale = b_.shape.scale(),
                                        .plan = *work.plan,
                                        .softcap = b_.shape.softcap,
                                        .out = b_.shape.has_library_backward() ? queries_of(out) : Tensor()});
    if (i > 0) finish_return(work, groups[i - 1], gradients);
    start_return(work, group);
  }
  finish_return(work, groups.back(), gradients);
}

void AllGatherAttention::start_return(const Work& work, const HeadGroup& group) {
  const Tensor partial = rows_of(b_.partial_dkv[group.slot], group, cut_.length());
  std::vector<comm::Message> sends, receives;
  for (std::size_t d = 0; d < work.rounds.size(); ++d) {
    const Round& round = work.rounds[d];
    const Tensor returned = rows_of(b_.returned_dkv.rows(static_cast<std::int64_t>(d), 1), group, cut_.local_length());
    add_messages(sends, chunks_in_row(partial, cut_, round.from), round.receives, round.from);
    add_messages(receives, chunks_in_part(returned, cut_, group_.rank()), round.sends, round.to);
  }
  compute_done_->record(backend_.stream());
  ring_stream_.wait(*compute_done_);
  collectives_.exchange_all(group_, sends, receives, ring_stream_);
  returned_->record(ring_stream_);
}

void AllGatherAttention::finish_return(const Work& work, const HeadGroup& group, const Heads& gradients) {
  device::timed_wait(timeline_, backend_.stream(), *returned_, "wait for gradients of keys");
  const int rank = group_.rank();
  const ChunkRows sums = chunks_in_row(rows_of(b_.partial_dkv[group.slot], group, cut_.length()), cut_, rank);
  for (std::size_t d = 0; d < work.rounds.size(); ++d) {
    const Tensor returned = rows_of(b_.returned_dkv.rows(static_cast<std::int64_t>(d), 1), group, cut_.local_length());
    const ChunkRows parts = chunks_in_part(returned, cut_, rank);
    if (work.rounds[d].sends.front) backend_.run(ops::Add{sums.front(), parts.front()});
    if (work.rounds[d].sends.back) backend_.run(ops::Add{sums.back(), parts.back()});
  }
  const ChunkRows dk = chunks_in_part(head_range(gradients.k, group.kv_begin, group.kv_count), cut_, rank);
  const ChunkRows dv = chunks_in_part(head_range(gradients.v, group.kv_begin, group.kv_count), cut_, rank);
  for (std::size_t c = 0; c < sums.size(); ++c) {
    const KeysValues from = split(sums[c], group);
    backend_.run(ops::Copy{dk[c], from.k});
    backend_.run(ops::Copy{dv[c], from.v});
  }
}

}  // namespace sft::parallel
