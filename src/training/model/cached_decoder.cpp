// SPDX-License-Identifier: Apache-2.0
#include "sft/model/cached_decoder.hpp"

#include <cstddef>
#include <utility>

#include "sft/model/layer_plan.hpp"
#include "sft/model/linear/linear.hpp"
#include "sft/model/loss_head.hpp"
#include "sft/model/sublayer.hpp"

namespace sft::model {

CachedDecoderBuffers::CachedDecoderBuffers(const config::Model& config, const DecoderParameters& parameters,
                                           const Sizes& sizes, std::int64_t max_tokens)
    : windows(attention_windows(config)),
      blocks(make_block_buffers(parameters, sizes, {})),
      sizes_(sizes),
      config_(config) {
  for (const BlockParameters& block : parameters.blocks) {
    BlockTextState state;
    for (const BlockSublayer& sublayer : block.sublayers) {
      state.emplace_back(sublayer.layer->text_state(sizes, max_tokens));
    }
    text.push_back(std::move(state));
  }
}

void CachedDecoderBuffers::lay_out(device::Arena& cache, device::Arena& workspace) {
  for (BlockTextState& block : text) {
    for (SublayerTensors& state : block) state.take(cache, Lifetime::input);
  }
  const auto take_all = [&](SublayerTensors& tensors) {
    for (const Lifetime lifetime : kept_lifetimes) tensors.take(workspace, lifetime);
  };
  std::vector<SublayerTensors*> streams;
  for (BlockBuffers& block : blocks) {
    for (SublayerBuffers& buffers : block) streams.push_back(&buffers.stream);
  }
  for (std::size_t i = 0; i < streams.size(); ++i) {
    if (i < 2) {
      take_all(*streams[i]);
    } else {
      *streams[i] = *streams[i - 2];
    }
  }
  take_in_turn(workspace, blocks.size(), [&](int block) {
    for (SublayerBuffers& buffers : blocks[BlockIndex::from(block)]) take_all(buffers.own);
  });
  scratch = take_forward_scratch(workspace, sizes_, config_, blocks);
  last_rstd = take(workspace, DType::float32, {1});
}

CachedDecoder::CachedDecoder(const Context& context, CachedAttention& attention, const DecoderParameters& parameters,
                             CachedDecoderBuffers& buffers)
    : c_(context), attention_(attention), p_(parameters), b_(buffers) {}

void CachedDecoder::initialize() { b_.scratch.ropes.upload(c_.config, c_.device, c_.ops); }

void CachedDecoder::forward(const Tensor& tokens, const Tensor& positions, std::int64_t num_cached,
                            const Tensor& logits) {
  const std::int64_t n = tokens.shape[0];
  const auto buffers_of = [&](BlockIndex block) { return first_tokens(b_.blocks[block], c_.sizes, n); };
  BlockScratch scratch = first_tokens(b_.scratch, n);
  const auto epsilon = static_cast<float>(c_.config.rms_norm_eps);

  attention_.begin_pass(num_cached, n);
  scratch.ropes.fill(c_.config, c_.ops, positions);
  c_.units.begin_pass(p_.forward_units(), parallel::ShardedUnits::Pass::forward);
  c_.units.enter(p_.embedding_unit());
  const Tensor first = buffers_of(0).front().stream["x"];
  c_.ops.run(ops::EmbeddingForward{first, tokens, c_.units.parameter(p_.embedding), c_.sizes.vocab_begin});
  scale_embedding(c_, first);
  for (const BlockIndex i : p_.blocks.indices()) {
    BlockBuffers buffers = buffers_of(i);
    block_generate(c_, p_.blocks[i], i == 0 ? Tensor() : buffers.back().stream["x"], buffers, scratch, b_.text[i],
                   num_cached, attention_);
  }
  c_.units.enter(p_.head_unit());
  if (!logits.empty()) {
    const std::int64_t last = n - 1;
    const BlockBuffers buffers = buffers_of(p_.blocks.last());
    c_.ops.run(ops::AddRmsNormForward{.sum = buffers.front().stream["x"].rows(last, 1),
                                      .y = scratch.normed.rows(last, 1),
                                      .rstd = b_.last_rstd,
                                      .x = buffers.back().stream["x"].rows(last, 1),
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
