#include "parallel/ring_attention.hpp"

#include <algorithm>
#include <utility>

#include "sft/core/error.hpp"

namespace sft::parallel {

namespace {

Tensor flat(const Tensor& x) { return x.view({x.num_elements()}); }

}  // namespace

RingAttention::RingAttention(const Shape& shape, const comm::Group& sp, device::Device& device, ops::Backend& backend,
                             comm::Collectives& collectives, device::Stream& ring_stream)
    : shape_(shape),
      group_(sp),
      backend_(backend),
      collectives_(collectives),
      ring_stream_(ring_stream),
      compute_done_(device.make_event()) {
  for (auto& event : kv_done_) event = device.make_event();
  for (auto& event : dkv_done_) event = device.make_event();
}

void RingAttention::lay_out(device::Arena& arena) {
  const auto take_kv = [&](DType dtype) {
    return take(arena, dtype, {2, shape_.tokens, shape_.kv_heads, shape_.head_dim});
  };
  packed_kv_ = take_kv(shape_.compute);
  delta_ = take(arena, DType::float32, {shape_.tokens, shape_.q_heads});
  if (shape_.compute != DType::float32) {
    q_sums_ = take(arena, DType::float32, {shape_.tokens, shape_.q_heads, shape_.head_dim});
    kv_sums_ = take_kv(DType::float32);
  }
  for (std::size_t i = 0; i < 2; ++i) {
    received_kv_[i] = take_kv(shape_.compute);
    partial_dkv_[i] = take_kv(DType::float32);
    returned_dkv_[i] = take_kv(DType::float32);
  }
}

void RingAttention::set_schedule(const sequence::AttentionSchedule& schedule) {
  ensure(std::cmp_equal(schedule.steps.size(), group_.size()), "the ring has one step for each rank");
  steps_.clear();
  for (const sequence::AttentionStep& step : schedule.steps) {
    steps_.push_back({step.to, step.from, step.sends, step.receives, !step.spans.empty(),
                      backend_.plan_attention(step.spans, shape_.tokens, shape_.tokens)});
  }
}

RingAttention::KeysValues RingAttention::halves_of(const Tensor& kv) {
  const auto half = [&](std::int64_t i) { return kv.rows(i, 1).view({kv.shape[1], kv.shape[2], kv.shape[3]}); };
  return {half(0), half(1)};
}

void RingAttention::pack(const Heads& heads) {
  if (std::ranges::none_of(steps_, &Step::sends)) return;
  const KeysValues packed = halves_of(packed_kv_);
  backend_.copy(packed.k, heads.k);
  backend_.copy(packed.v, heads.v);
}

void RingAttention::start_exchange(std::size_t d) {
  if (d >= steps_.size()) return;
  const Step& step = steps_[d];
  // The buffer's last reader, two steps ago, must be done; so must be the writer of this rank's keys.
  compute_done_->record(backend_.stream());
  ring_stream_.wait(*compute_done_);
  collectives_.exchange(group_, step.sends ? flat(packed_kv_) : Tensor(), step.to,
                        step.receives ? flat(received_kv_[d % 2]) : Tensor(), step.from, ring_stream_);
  kv_done_[d % 2]->record(ring_stream_);
}

RingAttention::KeysValues RingAttention::keys_of(std::size_t d, const Heads& heads) {
  if (d == 0) return {heads.k, heads.v};
  backend_.stream().wait(*kv_done_[d % 2]);
  return halves_of(received_kv_[d % 2]);
}

void RingAttention::forward(const Heads& heads, Tensor out, Tensor lse) {
  const Tensor sums = q_sums_.empty() ? out : q_sums_;
  pack(heads);
  for (std::size_t d = 0; d < steps_.size(); ++d) {
    start_exchange(d + 1);
    const KeysValues keys = keys_of(d, heads);
    const bool is_first = d == 0;
    if (!is_first && !steps_[d].computes) continue;
    backend_.attention_forward(
        {heads.q, keys.k, keys.v, sums, lse, shape_.scale(), *steps_[d].plan, /*merge=*/!is_first});
  }
  if (!q_sums_.empty()) backend_.copy(out, q_sums_);
}

void RingAttention::backward(const Heads& heads, Tensor out, Tensor lse, Tensor dout, const Heads& gradients) {
  backend_.attention_delta(delta_, out, dout);
  const Tensor dq = q_sums_.empty() ? gradients.q : q_sums_;
  const KeysValues own = kv_sums_.empty() ? KeysValues{gradients.k, gradients.v} : halves_of(kv_sums_);
  pack(heads);
  for (std::size_t d = 0; d < steps_.size(); ++d) {
    start_exchange(d + 1);
    const KeysValues keys = keys_of(d, heads);
    const bool is_first = d == 0;
    if (is_first || steps_[d].computes) {
      const KeysValues sums = is_first ? own : halves_of(partial_dkv_[d % 2]);
      backend_.attention_backward({heads.q, keys.k, keys.v, dout, lse, delta_, dq, sums.k, sums.v, shape_.scale(),
                                   *steps_[d].plan, /*accumulate_dq=*/!is_first});
    }
    if (is_first) continue;
    start_return(d);
    if (d > 1) add_returned(d - 1, own);
  }
  if (steps_.size() > 1) add_returned(steps_.size() - 1, own);
  if (q_sums_.empty()) return;
  backend_.copy(gradients.q, q_sums_);
  backend_.copy(gradients.k, own.k);
  backend_.copy(gradients.v, own.v);
}

void RingAttention::start_return(std::size_t d) {
  const Step& step = steps_[d];
  compute_done_->record(backend_.stream());
  ring_stream_.wait(*compute_done_);
  // The keys that this rank sent in step d were used by `to`.
  collectives_.exchange(group_, step.receives ? flat(partial_dkv_[d % 2]) : Tensor(), step.from,
                        step.sends ? flat(returned_dkv_[d % 2]) : Tensor(), step.to, ring_stream_);
  dkv_done_[d % 2]->record(ring_stream_);
}

void RingAttention::add_returned(std::size_t d, const KeysValues& sums) {
  backend_.stream().wait(*dkv_done_[d % 2]);
  if (!steps_[d].sends) return;
  const KeysValues returned = halves_of(returned_dkv_[d % 2]);
  backend_.add(sums.k, returned.k);
  backend_.add(sums.v, returned.v);
}

}  // namespace sft::parallel
