// SPDX-License-Identifier: Apache-2.0
#pragma once
// The buffers in which all adapters work. Pure: planning lays them out without a device.

#include <cstdint>
#include <map>

#include "sft/config/config.hpp"
#include "sft/device/arena.hpp"
#include "sft/model/architecture.hpp"
#include "sft/model/context.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::model {

struct ActivationPolicy;

/// Scratch memory and dropout of the micro-batch, which the passes of all LoRA adapters share. Pure: planning lays it
/// out without a device.
class AdapterBuffers {
 public:
  /// For a model without adapters.
  AdapterBuffers() = default;
  /// For the adapters of all linear layers of blocks.
  AdapterBuffers(const config::Lora& lora, const DecoderParameters& parameters, const Sizes& sizes,
                 const ActivationPolicy& policy);

  /// Takes nothing without use_peft; call with sizing arenas, then with real ones. `tp_sums`: for what is summed over
  /// tp.
  void lay_out(device::Arena& workspace, device::Arena& tp_sums);

  /// Share of the inputs to drop; 0 while no seed is set.
  [[nodiscard]] float dropout() const { return seed_.empty() ? 0.0F : dropout_; }
  [[nodiscard]] const Tensor& seed() const { return seed_; }
  /// Seeds the dropout of the next pass, as ops::Dropout has seeds; empty: nothing is dropped.
  void set_seed(const Tensor& seed) { seed_ = seed; }

  // Scratch memory for T = `num_tokens` tokens, compute dtype.
  /// (T, R): the product in the middle of an adapter of `rank`, and its gradient.
  [[nodiscard]] Tensor low(std::int64_t num_tokens, std::int64_t rank) const {
    return low_.rows(0, num_tokens * rank).view({num_tokens, rank});
  }
  [[nodiscard]] Tensor low_grad(std::int64_t num_tokens, std::int64_t rank) const {
    return low_grad_.rows(0, num_tokens * rank).view({num_tokens, rank});
  }
  /// (T, columns): an input that was partly dropped, or its gradient. `columns` at most those of the widest layer that
  /// so many tokens pass; empty without dropout.
  [[nodiscard]] Tensor input(std::int64_t num_tokens, std::int64_t columns) const {
    return view_of(input_, num_tokens, columns);
  }

  // Scratch memory of adapters with magnitudes; empty where none has one.
  /// (T, N), compute dtype: what a weight gives, or its gradient.
  [[nodiscard]] Tensor output(std::int64_t num_tokens, std::int64_t rows) const {
    return view_of(output_, num_tokens, rows);
  }
  /// (N, R), float32: products of a weight's rows with those of A.
  [[nodiscard]] Tensor row_products(std::int64_t rows, std::int64_t rank) const {
    return view_of(row_products_, rows, rank);
  }
  /// (R, R), compute dtype: products of A's rows.
  [[nodiscard]] Tensor gram(std::int64_t rank) const { return view_of(gram_, rank, rank); }
  /// (N), float32: squares of the norms of rows, to be summed over tp.
  [[nodiscard]] Tensor squares(std::int64_t rows) const { return squares_.rows(0, rows); }
  /// (N), float32, of the adapter for the whole pass: magnitude / norm, and 1 / norm.
  [[nodiscard]] Tensor factors(const Adapter& adapter, std::int64_t rows) const;
  [[nodiscard]] Tensor inverse_norms(const Adapter& adapter, std::int64_t rows) const;

 private:
  static Tensor view_of(const Tensor& memory, std::int64_t rows, std::int64_t columns) {
    return memory.rows(0, rows * columns).view({rows, columns});
  }

  std::int64_t tokens_ = 0;
  DType compute_ = DType::float32;
  std::int64_t rank_ = 0;  ///< the largest; 0 without use_peft
  float dropout_ = 0.0F;
  bool has_magnitudes_ = false;
  /// The most elements of an input or output of a layer, and the most rows of a weight.
  std::int64_t most_elements_ = 0, most_rows_ = 0;
  std::map<std::uint64_t, std::int64_t> first_factors_;  ///< by the number of an adapter, among those of all
  std::int64_t num_factors_ = 0;
  Tensor seed_;
  Tensor low_, low_grad_, input_;
  Tensor output_, row_products_, gram_, squares_, factors_, inverse_norms_;
};

}  // namespace sft::model
