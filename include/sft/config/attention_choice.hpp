// SPDX-License-Identifier: Apache-2.0
#pragma once
// The choices of [device] attention, and which of them are kernels for GPUs of one compute capability. Pure.

#include <array>
#include <cstdint>

namespace sft::config {

/// The kernels of attention on GPUs; automatic: own. The other values are those of ops::AttentionKernels, in order.
enum class AttentionChoice { automatic, own, hopper, cudnn_forward, cudnn, cudnn_unordered };

/// Kernels of this program for GPUs of one compute capability alone: of bf16 numbers, without caps.
struct AttentionOfGpu {
  AttentionChoice choice;
  int compute_capability;  ///< 90: 9.0
  const char *architecture, *gpus;
  std::int64_t max_head_dim;
};
inline constexpr std::array attentions_of_gpus{
    AttentionOfGpu{AttentionChoice::hopper, 90, "Hopper", "H100, H200, GH200", 128}};

/// The entry of attentions_of_gpus for this choice; nullptr where the choice is for all GPUs.
[[nodiscard]] constexpr const AttentionOfGpu* attention_of_gpu(AttentionChoice choice) {
  for (const AttentionOfGpu& one : attentions_of_gpus) {
    if (one.choice == choice) return &one;
  }
  return nullptr;
}

}  // namespace sft::config
