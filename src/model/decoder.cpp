#include "sft/model/decoder.hpp"

#include "sft/model/rope.hpp"

namespace sft::model {

namespace {
constexpr int embedding_unit = 0;
}

Decoder::Decoder(const Context& context, bool reshard_after_forward)
    : c_(context), reshard_after_forward_(reshard_after_forward), loss_head_(context) {
  blocks_.resize(static_cast<std::size_t>(context.config.num_hidden_layers));
}

void Decoder::lay_out(Arenas& arenas) {
  for (BlockActivations& block : blocks_) block = take_activations(arenas.activations, c_);
  final_ = take(arenas.activations, c_.sizes.compute, {c_.sizes.tokens, c_.sizes.hidden});
  final_rstd_ = take(arenas.activations, DType::float32, {c_.sizes.tokens});
  scratch_ = take_scratch(arenas.workspace, c_);
  inverse_frequencies_ = take(arenas.workspace, DType::float64, {c_.sizes.head_dim / 2});
  loss_head_.lay_out(arenas.workspace);
  c_.attention.lay_out(arenas.workspace);
}

void Decoder::initialize() {
  const std::vector<double> frequencies = inverse_frequencies(c_.config);
  c_.device.copy(inverse_frequencies_.data, frequencies.data(), inverse_frequencies_.size_bytes(), c_.ops.stream());
  c_.ops.stream().synchronize();
}

void Decoder::embed(const Inputs& inputs) {
  const Tensor table = c_.units.parameter(embedding_unit, 0);
  const Tensor x = blocks_.front().x;
  if (c_.tp.size() == 1) {
    c_.ops.embedding_forward(x, inputs.tokens, table, c_.sizes.vocab_begin);
  } else {
    // Each row comes from exactly one rank, the others add zeros: exact in any dtype.
    c_.ops.embedding_forward(scratch_.delta, inputs.tokens, table, c_.sizes.vocab_begin);
    c_.tp.sum(scratch_.delta);
    c_.ops.copy(x, scratch_.delta);
  }
}

void Decoder::forward_body(const Inputs& inputs, const sequence::AttentionSchedule& schedule) {
  c_.attention.set_schedule(schedule);
  c_.ops.rope_table(scratch_.cosine, scratch_.sine, inputs.positions, inverse_frequencies_);

  c_.units.gather(embedding_unit);
  c_.units.gather(1);
  c_.units.use(embedding_unit);
  embed(inputs);
  // A tied table is used again by the head, and no other unit needs its buffer.
  if (reshard_after_forward_ && !c_.config.tie_word_embeddings) c_.units.release(embedding_unit);

  for (int unit = 1; unit < head_unit(); ++unit) {
    const bool is_last = unit + 1 == head_unit();
    c_.units.use(unit);
    c_.units.gather(is_last ? head_weight_unit() : unit + 1);
    const auto block = static_cast<std::size_t>(unit - 1);
    block_forward(c_, unit, unit == 1 ? Tensor() : blocks_[block - 1].middle, blocks_[block], scratch_);
    // The last block is the first of the backward pass.
    if (reshard_after_forward_ && !is_last) c_.units.release(unit);
  }

  c_.units.use(head_unit());
  c_.units.use(head_weight_unit());
  c_.ops.add_rms_norm_forward(final_, scratch_.normed, final_rstd_, blocks_.back().middle, scratch_.delta,
                              c_.units.parameter(head_unit(), final_norm_index),
                              static_cast<float>(c_.config.rms_norm_eps));
}

void Decoder::head_backward(const Inputs& inputs, float gradient_scale, Tensor metrics) {
  loss_head_.forward_backward(scratch_.normed, c_.units.parameter(head_weight_unit(), head_weight()), inputs,
                              gradient_scale, c_.units.gradient(head_weight_unit(), head_weight()), scratch_.dnormed,
                              metrics);
  c_.ops.rms_norm_backward(scratch_.dx, c_.units.accumulated_gradient(head_unit(), final_norm_index), scratch_.dnormed,
                           final_, final_rstd_, c_.units.parameter(head_unit(), final_norm_index), Tensor());
  c_.units.release(head_weight_unit());
  c_.units.release(head_unit());
  c_.units.reduce(head_unit());
}

void Decoder::forward_backward(const Inputs& inputs, const sequence::AttentionSchedule& schedule, float gradient_scale,
                               Tensor metrics) {
  forward_body(inputs, schedule);
  head_backward(inputs, gradient_scale, metrics);
  for (int unit = head_unit() - 1; unit > embedding_unit; --unit) {
    c_.units.use(unit);
    if (unit > 1) c_.units.gather(unit - 1);
    block_backward(c_, unit, blocks_[static_cast<std::size_t>(unit - 1)], scratch_);
    c_.units.release(unit);
    c_.units.reduce(unit);
  }
  c_.ops.embedding_backward(c_.units.accumulated_gradient(embedding_unit, 0), inputs.tokens, scratch_.dx,
                            c_.sizes.vocab_begin);
  c_.units.release(embedding_unit);
  c_.units.reduce(embedding_unit);
}

void Decoder::forward_logits(const Inputs& inputs, const sequence::AttentionSchedule& schedule, std::int64_t begin,
                             std::int64_t count, Tensor logits) {
  forward_body(inputs, schedule);
  c_.ops.matmul({.a = scratch_.normed.rows(begin, count),
                 .b = c_.units.parameter(head_weight_unit(), head_weight()),
                 .c = logits,
                 .transpose_b = true});
  for (int unit = 0; unit <= head_unit(); ++unit) c_.units.release(unit);
}

}  // namespace sft::model
