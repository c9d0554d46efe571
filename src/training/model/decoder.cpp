// SPDX-License-Identifier: Apache-2.0
#include "sft/model/decoder.hpp"

#include <algorithm>

#include "sft/core/ensure.hpp"
#include "sft/model/linear/linear.hpp"
#include "sft/model/sublayer.hpp"

namespace sft::model {

namespace {

constexpr device::RangeLabel loss_head_label{.category = "model", .what = "loss head"};

/// Of the mover, and the number of its place.
std::size_t lane_of(BlockIndex block) { return static_cast<std::size_t>(static_cast<int>(block)); }

}  // namespace

Decoder::Decoder(const Context& context, const DecoderParameters& parameters, DecoderBuffers& buffers,
                 transfer::Mover* mover)
    : c_(context), p_(parameters), b_(buffers), mover_(mover) {
  SFT_ENSURE(mover != nullptr || buffers.num_offloaded() == 0, "activations that are offloaded have a place");
}

template <class Work>
void Decoder::timed(const device::RangeLabel& label, const Work& work) {
  device::timed(c_.device.timeline(), c_.ops.stream(), label, work);
}

void Decoder::initialize() { b_.scratch.ropes.upload(c_.config, c_.device, c_.ops); }

void Decoder::embed(const Inputs& inputs, std::span<const EmbeddingNoise> noise) {
  const Tensor table = c_.units.parameter(p_.embedding);
  const Tensor x = b_.blocks.front().front().stream["x"];
  if (c_.tp.size() == 1) {
    c_.ops.run(ops::EmbeddingForward{x, inputs.tokens, table, c_.sizes.vocab_begin});
  } else {
    // Each row comes from exactly one rank, the others add zeros: exact in any dtype.
    c_.ops.run(ops::EmbeddingForward{b_.scratch.delta, inputs.tokens, table, c_.sizes.vocab_begin});
    c_.tp.reduce(b_.scratch.delta);
    c_.ops.run(ops::Copy{x, c_.tp.slice(b_.scratch.delta)});
  }
  // x has a slice of the tokens where tp cuts them.
  const std::int64_t first = c_.sizes.token_slices > 1 ? c_.tp.rank() * x.shape[0] : 0;
  for (const EmbeddingNoise& part : noise) {
    const std::int64_t begin = std::max(part.begin, first);
    const std::int64_t count = std::min(part.begin + part.num_tokens, first + x.shape[0]) - begin;
    if (count <= 0) continue;
    const std::int64_t first_token = part.first_token + begin - part.begin;
    c_.ops.run(ops::AddUniform{x.rows(begin - first, count), part.seed, first_token * x.shape[1], part.bound});
  }
  scale_embedding(c_, x);
}

void Decoder::forward_body(const Inputs& inputs, const sequence::AttentionSchedules& schedules, bool keeps,
                           std::span<const EmbeddingNoise> noise) {
  b_.set_tokens(inputs.tokens.shape[0]);
  b_.scratch.num_padding = inputs.num_padding;
  b_.balance.begin(c_, /*counts=*/keeps);
  b_.adapters.set_seed(inputs.dropout_seed);
  c_.attention.set_schedules(schedules);
  b_.scratch.ropes.fill(c_.config, c_.ops, inputs.positions);

  timed({.category = "model", .what = "forward", .of = "embedding"}, [&] {
    c_.units.enter(p_.embedding_unit());
    embed(inputs, noise);
  });
  for (const BlockIndex i : p_.blocks.indices()) {
    if (i >= b_.num_slots()) wait_for(BlockIndex::from(i - b_.num_slots()));  // whose memory it gets
    timed({.category = "model", .what = "forward", .of = "block", .number = i}, [&] {
      const Tensor previous = i == 0 ? Tensor() : b_.blocks[BlockIndex::from(i - 1)].back().stream["x"];
      block_forward(c_, p_.blocks[i], previous, b_.blocks[i], b_.scratch);
    });
    if (keeps) save(i);
  }
  c_.units.enter(p_.head_unit());
  c_.ops.run(ops::AddRmsNormForward{.sum = c_.tp.slice(b_.scratch.dx),
                                    .y = c_.tp.slice(b_.scratch.normed),
                                    .rstd = b_.last_rstd,
                                    .x = b_.blocks.back().back().stream["x"],
                                    .delta = c_.tp.slice(b_.scratch.delta),
                                    .weight = norm_weight(c_, p_.final_norm),
                                    .epsilon = static_cast<float>(c_.config.rms_norm_eps)});
  c_.tp.gather(b_.scratch.normed);
  c_.units.enter(p_.head.unit());
}

void Decoder::head_backward(const Inputs& inputs, double gradient_scale, Tensor metrics) {
  timed(loss_head_label, [&] {
    b_.loss_head.forward_backward(c_, p_.head, b_.scratch.normed, inputs, gradient_scale, b_.scratch.dnormed, metrics);
  });
  c_.units.enter(p_.head_unit());
  const Tensor dx = c_.tp.slice(b_.scratch.dx);
  c_.ops.run(ops::RmsNormBackward{.dx = dx,
                                  .dweight = c_.units.accumulated_gradient(p_.final_norm),
                                  .dy = c_.tp.slice(b_.scratch.dnormed),
                                  .x = dx,  // the residual stream behind the last block
                                  .rstd = b_.last_rstd,
                                  .weight = norm_weight(c_, p_.final_norm)});
}

void Decoder::block_backward_of(BlockIndex i) {
  wait_for(i);
  if (i != p_.blocks.last() && !b_.policy().keeps_all()) {  // what the last block computed is still there
    timed({.category = "model", .what = "recompute", .of = "block", .number = i},
          [&] { block_recompute(c_, p_.blocks[i], b_.policy(), b_.blocks[i], b_.scratch); });
  }
  timed({.category = "model", .what = "backward", .of = "block", .number = i},
        [&] { block_backward(c_, p_.blocks[i], b_.blocks[i], b_.scratch); });
  if (i >= b_.num_slots()) load(BlockIndex::from(i - b_.num_slots()));
}

std::vector<transfer::Move> Decoder::moves_of(BlockIndex i) const {
  return transfer::moves_of(lane_of(i), kept_tensors(b_.blocks[i], b_.policy()));
}

void Decoder::save(BlockIndex i) {
  if (i < b_.num_offloaded()) mover_->write(lane_of(i), moves_of(i));
}

void Decoder::load(BlockIndex i) {
  if (i >= b_.num_offloaded()) return;
  mover_->reads_follow_ops();
  mover_->read(lane_of(i), moves_of(i));
}

void Decoder::wait_for(BlockIndex i) {
  if (i < b_.num_offloaded()) mover_->finish(lane_of(i), c_.ops.stream());
}

void Decoder::for_each_weight_norm(
    const std::function<void(const parallel::ParameterGroup& magnitude, const Tensor& norms)>& visit) {
  c_.units.begin_pass(p_.block_units(), parallel::ShardedUnits::Pass::forward);
  for (const BlockParameters& block : p_.blocks) {
    for (const BlockSublayer& sublayer : block.sublayers) {
      for (const Linear& layer : sublayer.layer->linear_layers()) {
        c_.units.enter(layer.unit());
        for (const Adapter& adapter : layer.adapters) {
          if (adapter.magnitude.exists()) visit(adapter.magnitude, weight_norms(c_, layer, adapter));
        }
      }
    }
  }
  c_.units.end_pass();
}

void Decoder::forward_backward(const Inputs& inputs, const sequence::AttentionSchedules& schedules,
                               const GradientScale& scale, Tensor metrics, std::span<const EmbeddingNoise> noise) {
  c_.units.begin_pass(p_.forward_backward_units(!b_.policy().keeps_all()), parallel::ShardedUnits::Pass::micro_batch);
  forward_body(inputs, schedules, /*keeps=*/true, noise);
  head_backward(inputs, scale.loss, metrics);
  b_.balance.share(c_, scale.aux_loss);
  for (const BlockIndex i : p_.blocks.reversed_indices()) block_backward_of(i);
  timed({.category = "model", .what = "backward", .of = "embedding"}, [&] {
    c_.units.enter(p_.embedding_unit());
    if (!c_.units.has_gradient(p_.embedding)) return;
    scale_embedding(c_, c_.tp.slice(b_.scratch.dx));
    c_.tp.gather(b_.scratch.dx);
    embedding_backward(inputs.tokens);
  });
  c_.units.end_pass();
}

void Decoder::embedding_backward(const Tensor& tokens) {
  const Tensor dtable = c_.units.accumulated_gradient(p_.embedding);
  const std::int64_t first_id = c_.sizes.vocab_begin, num_rows = dtable.shape[0];
  const auto add_rows = [&](std::int64_t begin, std::int64_t end) {
    if (begin >= end) return;
    c_.ops.run(ops::EmbeddingBackward{dtable.rows(begin, end - begin), tokens, b_.scratch.dx, first_id + begin});
  };
  const std::int64_t padding = c_.config.pad_token_id - first_id;
  if (c_.config.pad_token_id < 0 || padding < 0 || padding >= num_rows) return add_rows(0, num_rows);
  add_rows(0, padding);
  add_rows(padding + 1, num_rows);
}

void Decoder::forward_loss(const Inputs& inputs, const sequence::AttentionSchedules& schedules, Tensor metrics) {
  c_.units.begin_pass(p_.forward_units(), parallel::ShardedUnits::Pass::forward);
  forward_body(inputs, schedules, /*keeps=*/false);
  timed(loss_head_label, [&] { b_.loss_head.forward(c_, p_.head, b_.scratch.normed, inputs, metrics); });
  c_.units.end_pass();
}

void Decoder::forward_logits(const Inputs& inputs, const sequence::AttentionSchedules& schedules, std::int64_t begin,
                             std::int64_t count, Tensor logits) {
  c_.units.begin_pass(p_.forward_units(), parallel::ShardedUnits::Pass::forward);
  forward_body(inputs, schedules, /*keeps=*/false);
  head_logits(c_, p_.head, logits, b_.scratch.normed.rows(begin, count));
  c_.units.end_pass();
}

}  // namespace sft::model
