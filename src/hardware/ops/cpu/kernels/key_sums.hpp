// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the gradients of keys and values add up, over the queries that see them.

#include "ops/cpu/attention_arguments.hpp"
#include "ops/cpu/kernels/types.hpp"

namespace sft::ops::cpu::SFT_ISA {

/// The sums of one lane and one key/value head, from the lane's first key on: in dk and dv themselves when they are
/// float32, else in scratch, which finish() rounds into them.
class KeySums {
 public:
  /// Zero unless the call adds to what dk and dv hold.
  KeySums(const AttentionArguments& arguments, const AttentionLane& lane, std::int64_t kv_head, std::int64_t thread)
      : lane_(lane), head_dim_(arguments.head_dim), column_(kv_head * arguments.head_dim) {
    if (arguments.dk.is_bf16) {
      const KeySumScratch& scratch = arguments.key_sums;
      const std::int64_t first_row =
          scratch.is_per_thread ? thread * scratch.rows_of_thread : kv_head * arguments.dk.rows + lane.k_begin;
      dk_ = scratch.data + 2 * first_row * head_dim_;
      dv_ = dk_ + num_keys() * head_dim_;
      dk_stride_ = dv_stride_ = head_dim_;
    } else {
      dk_ = row<float>(arguments.dk, lane.k_begin) + column_;
      dv_ = row<float>(arguments.dv, lane.k_begin) + column_;
      dk_stride_ = arguments.dk.stride;
      dv_stride_ = arguments.dv.stride;
    }
    if (!arguments.adds_to_dkv) {
      for (std::int64_t j = 0; j < num_keys(); ++j) {
        clear(dk_ + j * dk_stride_);
        clear(dv_ + j * dv_stride_);
      }
    }
  }

  void finish(const AttentionArguments& arguments) const {
    if (!arguments.dk.is_bf16) return;
    for (std::int64_t j = 0; j < num_keys(); ++j) {
      round_to(row<Bf16>(arguments.dk, lane_.k_begin + j) + column_, dk_ + j * dk_stride_);
      round_to(row<Bf16>(arguments.dv, lane_.k_begin + j) + column_, dv_ + j * dv_stride_);
    }
  }

  [[nodiscard]] float* dk_of(std::int64_t key) const { return dk_ + (key - lane_.k_begin) * dk_stride_; }
  [[nodiscard]] std::int64_t dk_stride() const { return dk_stride_; }
  [[nodiscard]] std::int64_t dv_stride() const { return dv_stride_; }
  [[nodiscard]] float* dv_of(std::int64_t key) const { return dv_ + (key - lane_.k_begin) * dv_stride_; }

 private:
  [[nodiscard]] std::int64_t num_keys() const { return lane_.k_end - lane_.k_begin; }
  void clear(float* sums) const {
#pragma omp simd
    for (std::int64_t d = 0; d < head_dim_; ++d) sums[d] = 0.0f;
  }
  void round_to(Bf16* destination, const float* sums) const {
#pragma omp simd
    for (std::int64_t d = 0; d < head_dim_; ++d) store(destination[d], sums[d]);
  }

  AttentionLane lane_;
  std::int64_t head_dim_, column_;
  float *dk_, *dv_;
  std::int64_t dk_stride_, dv_stride_;
};

}  // namespace sft::ops::cpu::SFT_ISA
