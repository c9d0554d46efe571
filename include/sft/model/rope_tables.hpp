// SPDX-License-Identifier: Apache-2.0
#pragma once
// The angles of a model's rotary embeddings, made once a micro-batch for all layers. Pure until upload().

#include <cstdint>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/device/arena.hpp"
#include "sft/device/device.hpp"
#include "sft/ops/backend.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::model {

class RopeTables {
 public:
  RopeTables() = default;
  /// Takes the tables of ropes(`model`) for T = `num_tokens` tokens at most, contents undefined.
  RopeTables(const config::Model& model, device::Arena& arena, std::int64_t num_tokens);

  /// These tables in the same memory, for the first `num_tokens` tokens.
  [[nodiscard]] RopeTables first_rows(std::int64_t num_tokens) const;
  /// Writes the frequencies of `model`, that of the constructor; once, before the first fill().
  void upload(const config::Model& model, device::Device& device, ops::Backend& backend) const;
  /// The angles at positions (T) int32.
  void fill(const config::Model& model, ops::Backend& backend, const Tensor& positions) const;
  /// What LayerPlan::rope names.
  [[nodiscard]] ops::RopeTable operator[](int rope) const;

 private:
  struct Table {
    Tensor inverse_frequencies;  ///< (dims / 2) float64
    Tensor cosine, sine;         ///< (T, dims / 2) float32
  };
  std::vector<Table> tables_;
};

}  // namespace sft::model
