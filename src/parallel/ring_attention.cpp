#include "parallel/ring_attention.hpp"

#include <cmath>
#include <limits>

namespace sft::parallel {

namespace {

/// Half `half` (0: keys, 1: values) of a (2, T, K, D) tensor, as (T, K, D).
Tensor half_of(const Tensor& kv, std::int64_t half) {
  return kv.rows(half, 1).view({kv.shape[1], kv.shape[2], kv.shape[3]});
}

Tensor flat(const Tensor& x) { return x.view({x.num_elements()}); }

}  // namespace

RingAttention::RingAttention(const Shape& shape, const comm::Group& sp, device::Device& device, ops::Backend& backend,
                             comm::Collectives& collectives, device::Stream& ring_stream)
    : shape_(shape),
      group_(sp),
      device_(device),
      backend_(backend),
      collectives_(collectives),
      ring_stream_(ring_stream),
      compute_done_(device.make_event()) {
  for (auto& event : kv_done_) event = device.make_event();
  for (auto& event : dkv_done_) event = device.make_event();
}

void RingAttention::lay_out(device::Arena& arena) {
  if (group_.size() == 1) return;
  for (std::size_t i = 0; i < 2; ++i) {
    received_kv_[i] = take(arena, shape_.compute, {2, shape_.tokens, shape_.kv_heads, shape_.head_dim});
    partial_dkv_[i] = take(arena, DType::float32, {2, shape_.tokens, shape_.kv_heads, shape_.head_dim});
    returned_dkv_[i] = take(arena, DType::float32, {2, shape_.tokens, shape_.kv_heads, shape_.head_dim});
  }
}

void RingAttention::set_schedule(const sequence::AttentionSchedule& schedule) {
  steps_.clear();
  for (const sequence::AttentionStep& step : schedule.steps) {
    steps_.push_back(
        {step.to, step.from, step.sends, step.receives, !step.spans.empty(), backend_.plan_attention(step.spans)});
  }
}

void RingAttention::start_exchange(std::size_t d, const Tensor& kv) {
  if (d >= steps_.size()) return;
  const Step& step = steps_[d];
  // The buffer's last reader, two steps ago, must be done; so must be the writer of this rank's keys.
  compute_done_->record(backend_.stream());
  ring_stream_.wait(*compute_done_);
  collectives_.exchange(group_, step.sends ? flat(kv) : Tensor(), step.to,
                        step.receives ? flat(received_kv_[d % 2]) : Tensor(), step.from, ring_stream_);
  kv_done_[d % 2]->record(ring_stream_);
}

Tensor RingAttention::keys_of(std::size_t d, const Tensor& kv) {
  if (d == 0) return kv;
  backend_.stream().wait(*kv_done_[d % 2]);
  return received_kv_[d % 2];
}

void RingAttention::forward(Tensor q, Tensor kv, Tensor out, Tensor lse) {
  device_.fill_zero(out.data, out.size_bytes(), backend_.stream());
  backend_.fill(lse, -std::numeric_limits<float>::infinity());
  const float scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim));
  for (std::size_t d = 0; d < steps_.size(); ++d) {
    start_exchange(d + 1, kv);
    const Tensor keys = keys_of(d, kv);
    if (!steps_[d].computes) continue;
    backend_.attention_forward({q, half_of(keys, 0), half_of(keys, 1), out, lse, scale, *steps_[d].plan});
  }
}

void RingAttention::backward(Tensor q, Tensor kv, Tensor dout, Tensor lse, Tensor delta, Tensor dq, Tensor dkv) {
  device::Stream& stream = backend_.stream();
  device_.fill_zero(dq.data, dq.size_bytes(), stream);
  device_.fill_zero(dkv.data, dkv.size_bytes(), stream);
  const float scale = 1.0F / std::sqrt(static_cast<float>(shape_.head_dim));
  for (std::size_t d = 0; d < steps_.size(); ++d) {
    const Step& step = steps_[d];
    start_exchange(d + 1, kv);
    const Tensor keys = keys_of(d, kv);
    const Tensor gradient = d == 0 ? dkv : partial_dkv_[d % 2];
    if (step.computes) {
      if (d > 0) device_.fill_zero(gradient.data, gradient.size_bytes(), stream);
      backend_.attention_backward({q, half_of(keys, 0), half_of(keys, 1), dout, lse, delta, dq, half_of(gradient, 0),
                                   half_of(gradient, 1), scale, *step.plan});
    }
    if (d == 0) continue;
    // The keys' owner gets its part back; this rank's keys were used at distance d by `to`.
    compute_done_->record(stream);
    ring_stream_.wait(*compute_done_);
    collectives_.exchange(group_, step.receives ? flat(gradient) : Tensor(), step.from,
                          step.sends ? flat(returned_dkv_[d % 2]) : Tensor(), step.to, ring_stream_);
    dkv_done_[d % 2]->record(ring_stream_);
    if (d > 1) add_returned(d - 1, dkv);
  }
  if (steps_.size() > 1) add_returned(steps_.size() - 1, dkv);
}

void RingAttention::add_returned(std::size_t d, const Tensor& dkv) {
  backend_.stream().wait(*dkv_done_[d % 2]);
  if (steps_[d].sends) backend_.add(flat(dkv), flat(returned_dkv_[d % 2]));
}

}  // namespace sft::parallel
