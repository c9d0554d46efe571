#pragma once
// Causal, document-masked attention over the sequence-parallel group (ring attention, Liu et al. 2023; zigzag balance,
// Zhu 2024). At ring distance d every rank attends to the keys of the rank d places back while those of d + 1 are under
// way; partial results merge in float32 by log-sum-exp. Pairs of ranks that no document spans exchange nothing.

#include <array>
#include <memory>
#include <vector>

#include "sft/comm/collectives.hpp"
#include "sft/device/arena.hpp"
#include "sft/device/device.hpp"
#include "sft/mesh/mesh.hpp"
#include "sft/ops/backend.hpp"
#include "sft/parallel/ring_plan.hpp"

namespace sft::parallel {

/// Shapes: T tokens, H query heads, K key/value heads, D head dim, all local. Collective over the sp group.
class RingAttention {
 public:
  struct Shape {
    std::int64_t tokens, q_heads, kv_heads, head_dim;
    DType compute;
  };

  RingAttention(const Shape& shape, const mesh::Mesh& mesh, device::Device& device, ops::Backend& backend,
                comm::Collectives& collectives, device::Stream& ring_stream);

  /// Takes the exchange buffers from `arena`; call with a sizing arena, then with a real one.
  void lay_out(device::Arena& arena);
  /// Sets the documents of the rows whose tokens follow; rows have `length` tokens before the cut.
  void plan(const RowDocuments& documents, std::int64_t length);

  /// out (T, H, D) float32 and lse (T, H) float32 = attention of q (T, H, D) to the group's keys and values;
  /// kv (2, T, K, D): this rank's keys, then values. Tokens outside every document get 0 and -inf.
  void forward(Tensor q, Tensor kv, Tensor out, Tensor lse);
  /// dq (T, H, D), dkv (2, T, K, D), float32, are overwritten. dout (T, H, D); lse, delta (T, H).
  void backward(Tensor q, Tensor kv, Tensor dout, Tensor lse, Tensor delta, Tensor dq, Tensor dkv);

 private:
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
  std::vector<RingStep> steps_;
  // Two of each: one in use, one under way.
  std::array<Tensor, 2> received_kv_, partial_dkv_, returned_dkv_;
  std::array<std::unique_ptr<device::Event>, 2> kv_done_, dkv_done_;
  std::unique_ptr<device::Event> compute_done_;
};

}  // namespace sft::parallel
