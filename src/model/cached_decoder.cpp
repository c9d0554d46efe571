// SPDX-License-Identifier: Apache-2.0
#include "sft/model/cached_decoder.hpp"

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/model/layer_plan.hpp"
#include "sft/model/linear/linear.hpp"
#include "sft/model/loss_head.hpp"

namespace sft::model {

CachedDecoderBuffers::CachedDecoderBuffers(const config::Model& config, const Sizes& sizes, std::int64_t max_tokens)
    : layers(checked_cast<int>(config.num_hidden_layers)),
      windows(attention_windows(config)),
      sizes_(sizes),
      config_(config),
      max_tokens_(max_tokens) {}

void CachedDecoderBuffers::lay_out(device::Arena& cache, device::Arena& workspace) {
  for (LayerCache& layer : layers) {
    layer.keys = take(cache, sizes_.compute, {max_tokens_, sizes_.kv_heads, sizes_.head_dim});
    layer.values = take(cache, sizes_.compute, {max_tokens_, sizes_.kv_heads, sizes_.head_dim});
  }
  const std::vector<LayerPlan> plans = layer_plans(config_);
  const BlockActivations streams = take_streams(workspace, sizes_, plans.front());
  activations = IndexedVector<BlockIndex, BlockActivations>(layers.size());
  take_in_turn(workspace, layers.size(), [&](int block) {
    activations[BlockIndex::from(block)] =
        take_around(workspace, sizes_, plans.at(static_cast<std::size_t>(block)), streams);
  });
  scratch = take_forward_scratch(workspace, config_, sizes_);
  last_rstd = take(workspace, DType::float32, {1});
}

CachedAttention::CachedAttention(const IndexedVector<BlockIndex, LayerCache>& layers, float scale, float softcap,
                                 const sequence::AttentionWindows& windows, ops::Backend& backend)
    : layers_(layers), scale_(scale), softcap_(softcap), windows_(windows), backend_(backend) {}

void CachedAttention::begin_pass(std::int64_t num_cached, std::int64_t num_new) {
  num_cached_ = num_cached;
  num_new_ = num_new;
  next_layer_ = 0;
  sequence::AttentionSchedules schedules;
  for (const std::int64_t window : windows_) {
    sequence::AttentionRound round;
    for (const sequence::AttentionSpan& span :
         {sequence::AttentionSpan{0, num_new, 0, num_cached, /*diagonal=*/num_cached, 0, window},
          sequence::AttentionSpan{0, num_new, num_cached, num_new, /*diagonal=*/0, 0, window}}) {
      if (span.sees_any()) round.spans.push_back(span);
    }
    schedules.push_back({.rounds = {round}, .num_tokens = num_new});
  }
  set_schedules(schedules);
}

void CachedAttention::set_schedules(const sequence::AttentionSchedules& schedules) {
  plans_.clear();
  for (const sequence::AttentionSchedule& schedule : schedules) {
    SFT_ENSURE(schedule.rounds.size() == 1, "a cache is attended to in one round");
    plans_.push_back(backend_.plan_attention(schedule.rounds.front().spans, num_new_, num_cached_ + num_new_));
  }
}

void CachedAttention::forward(sequence::AttentionKind kind, const Heads& heads, Tensor out, Tensor lse) {
  SFT_ENSURE(next_layer_ < layers_.size(), "every layer attends once in a pass");
  const LayerCache& layer = layers_[next_layer_];
  ++next_layer_;
  backend_.run(ops::Copy{as_matrix(layer.keys.rows(num_cached_, num_new_)), as_matrix(heads.k)});
  backend_.run(ops::Copy{as_matrix(layer.values.rows(num_cached_, num_new_)), as_matrix(heads.v)});
  const std::int64_t num_keys = num_cached_ + num_new_;
  backend_.run(ops::AttentionForward{.q = heads.q,
                                     .k = layer.keys.rows(0, num_keys),
                                     .v = layer.values.rows(0, num_keys),
                                     .out = out,
                                     .lse = lse,
                                     .scale = scale_,
                                     .plan = *plans_[kind],
                                     .softcap = softcap_,
                                     .sinks = heads.sinks});
}

void CachedAttention::backward(sequence::AttentionKind /*kind*/, const Heads& /*heads*/, Tensor /*out*/, Tensor /*lse*/,
                               Tensor /*dout*/, const Heads& /*gradients*/) {
  SFT_ENSURE(false, "keys and values in a cache have no gradient");
}

CachedDecoder::CachedDecoder(const Context& context, CachedAttention& attention, const DecoderParameters& parameters,
                             CachedDecoderBuffers& buffers)
    : c_(context), attention_(attention), p_(parameters), b_(buffers) {}

void CachedDecoder::initialize() { b_.scratch.ropes.upload(c_.config, c_.device, c_.ops); }

void CachedDecoder::forward(const Tensor& tokens, const Tensor& positions, std::int64_t num_cached,
                            const Tensor& logits) {
  const std::int64_t n = tokens.shape[0];
  const auto saved_of = [&](BlockIndex block) { return first_rows(b_.activations[block], n); };
  BlockScratch scratch = first_rows(b_.scratch, n);
  const auto epsilon = static_cast<float>(c_.config.rms_norm_eps);

  attention_.begin_pass(num_cached, n);
  scratch.ropes.fill(c_.config, c_.ops, positions);
  c_.units.begin_pass(p_.forward_units(), parallel::ShardedUnits::Pass::forward);
  c_.units.enter(p_.embedding_unit());
  const StreamActivations first = saved_of(0).before_attention;
  c_.ops.run(ops::EmbeddingForward{first.x, tokens, c_.units.parameter(p_.embedding), c_.sizes.vocab_begin});
  scale_embedding(c_, first.x);
  for (const BlockIndex i : p_.blocks.indices()) {
    BlockActivations saved = saved_of(i);
    block_forward(c_, p_.blocks[i], i == 0 ? Tensor() : saved.before_mlp.x, saved, scratch);
  }
  c_.units.enter(p_.head_unit());
  if (!logits.empty()) {
    const std::int64_t last = n - 1;
    const BlockActivations saved = saved_of(p_.blocks.last());
    c_.ops.run(ops::AddRmsNormForward{.sum = saved.before_attention.x.rows(last, 1),
                                      .y = scratch.normed.rows(last, 1),
                                      .rstd = b_.last_rstd,
                                      .x = saved.before_mlp.x.rows(last, 1),
                                      .delta = scratch.delta.rows(last, 1),
                                      .weight = norm_weight(c_, p_.final_norm),
                                      .epsilon = epsilon});
  }
  c_.units.enter(p_.head.unit());
  if (!logits.empty()) {
    head_logits(c_, p_.head, logits.view({1, logits.num_elements()}), scratch.normed.rows(n - 1, 1));
  }
  c_.units.end_pass();
}

}  // namespace sft::model
