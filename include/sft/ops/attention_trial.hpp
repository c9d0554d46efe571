// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention of a library, or by kernels for one kind of GPU, beside this program's kernels for all GPUs, on the GPU
// that a run is about to use.

#include <cstdint>
#include <string>

#include "sft/device/device.hpp"
#include "sft/ops/backend.hpp"
#include "sft/ops/shapes.hpp"

namespace sft::ops {

/// Whose keys the queries of a trial see.
enum class TrialKeys {
  own,      ///< those of their own documents, which are whole
  rounds,   ///< as in the first round of a ring: float32 results, of a document that comes in two parts
  gathered  ///< as on the second of two ranks: those of the whole row, with float32 gradients
};

/// What attention is called with on one rank.
struct AttentionSizes {
  std::int64_t tokens, q_heads, kv_heads, head_dim;  ///< tokens even where keys are gathered
  float scale;
  bool has_backward;        ///< whether the library's backward pass is asked for
  std::int64_t window = 0;  ///< how far back a query sees, itself included; 0: all of its document
  TrialKeys keys = TrialKeys::own;
  bool has_sinks = false;  ///< but in rounds, of which the first one alone, for this program's kernels, has any
};

struct AttentionTrial {
  std::string difference;  ///< where the two differ by more than rounding, or how it failed; empty: they agree
  bool has_forward = false, has_backward = false;  ///< which passes a library has done
};

/// Runs attention of a random micro-batch of packed documents, with rows of none behind them, by `kernels`, hopper or
/// cudnn, and by this program's kernels for all GPUs, and compares output, log-sum-exp and gradients row by row. Takes
/// device memory for the time of the call. `device` is a GPU that runs `kernels`. Throws a configuration Error where
/// cuDNN cannot be used at all.
[[nodiscard]] AttentionTrial try_attention(device::Device& device, const AttentionSizes& sizes,
                                           AttentionKernels kernels);

/// Gives `list`, of make_attention_list, the calls that such a trial gives cuDNN.
void note_attention_trial(Backend& list, const AttentionSizes& sizes);

}  // namespace sft::ops
