// SPDX-License-Identifier: Apache-2.0
#include "sft/model/decoder.hpp"

#include "sft/model/rope.hpp"

namespace sft::model {

Decoder::Decoder(const Context& context, const DecoderParameters& parameters, DecoderBuffers& buffers,
                 bool reshard_after_forward)
    : c_(context), p_(parameters), b_(buffers), reshard_after_forward_(reshard_after_forward) {}

void Decoder::initialize() {
  const std::vector<double> frequencies = inverse_frequencies(c_.config);
  const Tensor& device_copy = b_.inverse_frequencies;
  c_.device.copy(device_copy.data, frequencies.data(), device_copy.size_bytes(), c_.ops.stream());
  c_.ops.stream().synchronize();
}

void Decoder::embed(const Inputs& inputs) {
  const Tensor table = c_.units.parameter(p_.embedding);
  const Tensor x = b_.blocks.front().x;
  if (c_.tp.size() == 1) {
    c_.ops.embedding_forward(x, inputs.tokens, table, c_.sizes.vocab_begin);
  } else {
    // Each row comes from exactly one rank, the others add zeros: exact in any dtype.
    c_.ops.embedding_forward(b_.scratch.delta, inputs.tokens, table, c_.sizes.vocab_begin);
    c_.tp.sum(b_.scratch.delta);
    c_.ops.copy(x, b_.scratch.delta);
  }
}

void Decoder::forward_body(const Inputs& inputs, const sequence::AttentionSchedule& schedule,
                           std::optional<std::uint64_t> dropout_seed) {
  b_.set_tokens(inputs.tokens.shape[0]);
  b_.adapters.set_seed(dropout_seed);
  c_.attention.set_schedule(schedule);
  c_.ops.rope_table(b_.scratch.cosine, b_.scratch.sine, inputs.positions, b_.inverse_frequencies,
                    static_cast<float>(c_.config.rope_scaling.attention_factor));

  c_.units.gather(p_.embedding_unit());
  c_.units.gather(p_.blocks.front().unit);
  c_.units.use(p_.embedding_unit());
  embed(inputs);
  // A tied table is used again by the head, and no other unit needs its buffer.
  const bool is_tied = p_.head.unit() == p_.embedding_unit();
  if (reshard_after_forward_ && !is_tied) c_.units.release(p_.embedding_unit());

  for (std::size_t i = 0; i < p_.blocks.size(); ++i) {
    const bool is_last = i + 1 == p_.blocks.size();
    c_.units.use(p_.blocks[i].unit);
    c_.units.gather(is_last ? p_.head.unit() : p_.blocks[i + 1].unit);
    block_forward(c_, p_.blocks[i], i == 0 ? Tensor() : b_.blocks[i - 1].middle, b_.blocks[i], b_.scratch);
    // The last block is the first of the backward pass.
    if (reshard_after_forward_ && !is_last) c_.units.release(p_.blocks[i].unit);
  }

  c_.units.use(p_.head_unit());
  c_.units.use(p_.head.unit());
  c_.ops.add_rms_norm_forward(b_.last, b_.scratch.normed, b_.last_rstd, b_.blocks.back().middle, b_.scratch.delta,
                              c_.units.parameter(p_.final_norm), static_cast<float>(c_.config.rms_norm_eps));
}

void Decoder::head_backward(const Inputs& inputs, double gradient_scale, Tensor metrics) {
  b_.loss_head.forward_backward(c_, p_.head, b_.scratch.normed, inputs, gradient_scale, b_.scratch.dnormed, metrics);
  c_.ops.rms_norm_backward(b_.scratch.dx, c_.units.accumulated_gradient(p_.final_norm), b_.scratch.dnormed, b_.last,
                           b_.last_rstd, c_.units.parameter(p_.final_norm), Tensor());
  c_.units.release(p_.head.unit());
  c_.units.release(p_.head_unit());
  c_.units.reduce(p_.head_unit());
}

void Decoder::forward_backward(const Inputs& inputs, const sequence::AttentionSchedule& schedule, double gradient_scale,
                               Tensor metrics, std::optional<std::uint64_t> dropout_seed) {
  forward_body(inputs, schedule, dropout_seed);
  head_backward(inputs, gradient_scale, metrics);
  for (std::size_t i = p_.blocks.size(); i-- > 0;) {
    const int unit = p_.blocks[i].unit;
    c_.units.use(unit);
    if (i > 0) c_.units.gather(p_.blocks[i - 1].unit);
    block_backward(c_, p_.blocks[i], b_.blocks[i], b_.scratch);
    c_.units.release(unit);
    c_.units.reduce(unit);
  }
  if (p_.embedding.trainable) {
    c_.ops.embedding_backward(c_.units.accumulated_gradient(p_.embedding), inputs.tokens, b_.scratch.dx,
                              c_.sizes.vocab_begin);
  }
  c_.units.release(p_.embedding_unit());
  c_.units.reduce(p_.embedding_unit());
}

void Decoder::forward_loss(const Inputs& inputs, const sequence::AttentionSchedule& schedule, Tensor metrics) {
  forward_body(inputs, schedule, std::nullopt);
  b_.loss_head.forward(c_, p_.head, b_.scratch.normed, inputs, metrics);
  release_all();
}

void Decoder::forward_logits(const Inputs& inputs, const sequence::AttentionSchedule& schedule, std::int64_t begin,
                             std::int64_t count, Tensor logits) {
  forward_body(inputs, schedule, std::nullopt);
  c_.ops.matmul({.a = b_.scratch.normed.rows(begin, count),
                 .b = c_.units.parameter(p_.head.weight),
                 .c = logits,
                 .transpose_b = true});
  release_all();
}

void Decoder::release_all() {
  for (int unit = 0; unit <= p_.head_unit(); ++unit) c_.units.release(unit);
}

}  // namespace sft::model
