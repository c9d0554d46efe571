// SPDX-License-Identifier: Apache-2.0
#pragma once
// The local math of one device, which runs ops as values (call.hpp). Nothing here communicates; every op is queued on
// the stream the backend was made for.
//
// Misuse is a std::logic_error where it is found. make_checked_backend (factory.hpp) finds everything that an op says
// of its shapes, dtypes, strides and shared memory. The backends themselves look for what costs nothing: the CPU
// backend finds float64 and int32 where float32 or bf16 is due; a tensor that is not float32 or not contiguous where it
// has to be; sizes that do not fit in Copy and Matmul, and dtypes in Matmul; a head dim that is odd or above 256 in
// attention and NormRope; an attention plan that was made for other sizes; a workspace that is too small when it is set
// or, for AttentionBackward, used.

#include <cstdint>
#include <memory>
#include <vector>

#include "sft/device/device.hpp"
#include "sft/ops/call.hpp"
#include "sft/sequence/attention.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// Calls of attention that a library has done so far (AttentionKernels).
struct LibraryCalls {
  std::int64_t forward = 0, backward = 0;
};

class Backend {
 public:
  virtual ~Backend() = default;
  [[nodiscard]] virtual device::Stream& stream() = 0;

  /// Scratch memory the ops of this backend may use, of any dtype and workspace_bytes() for the shapes that ops are
  /// called with (see factory.hpp); std::logic_error here where it is too small for any, else in the op. Set it before
  /// the first op; it stays the caller's and must outlive the backend's use.
  virtual void set_workspace(Tensor workspace) = 0;

  /// Queues the op. Host memory that it points to is read before the call returns.
  virtual void run(const Call& call) = 0;

  /// Prepares `spans`, which are read before the call returns, for any number of calls, forward and backward, over
  /// num_queries queries (T) and num_keys keys (Tk): once per micro-batch for all layers. The plan is for this
  /// backend alone and does not outlive it; it may be destroyed while queued calls still use it. It may lie in the
  /// workspace (AttentionNeeds says for how many there is room). The CUDA backend takes causal squares (q_len = k_len,
  /// diagonal 0) and full rectangles, with or without a window, as schedules have; other spans are a std::logic_error.
  [[nodiscard]] virtual std::unique_ptr<AttentionPlan> plan_attention(const std::vector<sequence::AttentionSpan>& spans,
                                                                      std::int64_t num_queries,
                                                                      std::int64_t num_keys) = 0;
  /// Such plans will be made: what takes the host long for a library of attention is then done for all of them, by
  /// several threads, at the first call of attention. No more than a hint.
  virtual void expect_attention(const std::vector<sequence::AttentionSpan>& /*spans*/, std::int64_t /*num_queries*/,
                                std::int64_t /*num_keys*/) {}
  /// Whether calls of attention with plans that are made from now on may be repeated with other plans in their places
  /// (make_repeated_backend). Then plans may be larger and calls cost a little more, so that many have the same
  /// launch_words(); the workspace has room for them (AttentionNeeds::repeats). At first not.
  virtual void set_attention_repeats(bool /*repeats*/) {}

  /// How many calls of attention were not this program's own kernels; none on CPUs.
  [[nodiscard]] virtual LibraryCalls library_calls() const { return {}; }
};

}  // namespace sft::ops
