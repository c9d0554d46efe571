#pragma once
// Ring attention (Liu et al. 2023): in step d every rank attends to the keys of the rank d places back while those of
// step d + 1 are under way; partial results merge in float32 by log-sum-exp. Pairs of ranks that no document spans
// exchange nothing.

#include <array>
#include <vector>

#include "sft/parallel/sequence_attention.hpp"

namespace sft::parallel {

class RingAttention final : public SequenceAttention {
 public:
  RingAttention(const Shape& shape, const comm::Group& sp, device::Device& device, ops::Backend& backend,
                comm::Collectives& collectives, device::Stream& ring_stream);

  void lay_out(device::Arena& arena) override;
  void set_schedule(const sequence::AttentionSchedule& schedule) override;
  void forward(Tensor q, Tensor kv, Tensor out, Tensor lse) override;
  void backward(Tensor q, Tensor kv, Tensor dout, Tensor lse, Tensor delta, Tensor dq, Tensor dkv) override;

 private:
  struct Step {
    int to, from;
    bool sends, receives, computes;
    std::unique_ptr<ops::AttentionPlan> plan;
  };

  /// Starts receiving the keys of step d; step 0 are this rank's own.
  void start_exchange(std::size_t d, const Tensor& kv);
  /// Waits for them.
  [[nodiscard]] Tensor keys_of(std::size_t d, const Tensor& kv);
  /// Waits for a neighbour's part of dkv at step d and adds it.
  void add_returned(std::size_t d, const Tensor& dkv);

  Shape shape_;
  comm::Group group_;
  device::Device& device_;
  ops::Backend& backend_;
  comm::Collectives& collectives_;
  device::Stream& ring_stream_;
  std::vector<Step> steps_;
  // Two of each: one in use, one under way.
  std::array<Tensor, 2> received_kv_, partial_dkv_, returned_dkv_;
  std::array<std::unique_ptr<device::Event>, 2> kv_done_, dkv_done_;
  std::unique_ptr<device::Event> compute_done_;
};

}  // namespace sft::parallel
