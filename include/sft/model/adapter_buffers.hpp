// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the passes of LoRA adapters share: scratch memory, their scale, and the dropout of the micro-batch. Pure:
// planning lays it out without a device.

#include <cstdint>
#include <optional>

#include "sft/config/config.hpp"
#include "sft/device/arena.hpp"
#include "sft/ops/shapes.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::model {

class AdapterBuffers {
 public:
  AdapterBuffers(const config::Lora& lora, const ops::Shapes& shapes);

  /// Takes nothing without use_peft; call with a sizing arena, then with a real one.
  void lay_out(device::Arena& workspace);
  /// T of the passes that follow; the most that was laid out for, before the first call.
  void set_tokens(std::int64_t num_tokens) { num_tokens_ = num_tokens; }

  [[nodiscard]] float scale() const { return scale_; }
  /// Share of the inputs to drop; 0 while no seed is set.
  [[nodiscard]] float dropout() const { return seed_ ? dropout_ : 0.0F; }
  [[nodiscard]] std::uint64_t seed() const { return seed_.value_or(0); }
  /// Of the next pass; none: nothing is dropped.
  void set_seed(std::optional<std::uint64_t> seed) { seed_ = seed; }

  /// (T, R) compute dtype: the product in the middle.
  [[nodiscard]] Tensor low() const { return low_.rows(0, num_tokens_); }
  /// (T, R) compute dtype: its gradient.
  [[nodiscard]] Tensor low_grad() const { return low_grad_.rows(0, num_tokens_); }
  /// (T, columns) compute dtype: an input that was partly dropped, or its gradient. `columns` at most those of the
  /// widest linear layer; empty without dropout.
  [[nodiscard]] Tensor input(std::int64_t columns) const;

 private:
  ops::Shapes shapes_;
  std::int64_t num_tokens_;
  std::int64_t rank_;  ///< 0 without use_peft
  float scale_, dropout_;
  std::optional<std::uint64_t> seed_;
  Tensor low_, low_grad_, input_;
};

}  // namespace sft::model
