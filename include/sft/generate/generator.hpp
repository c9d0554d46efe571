// SPDX-License-Identifier: Apache-2.0
#pragma once
// A model that continues texts: weights and what layers keep of a text, no gradient and no optimizer.

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "sft/checkpoint/state.hpp"
#include "sft/comm/collectives.hpp"
#include "sft/comm/group.hpp"
#include "sft/config/config.hpp"
#include "sft/core/dtype.hpp"
#include "sft/device/device.hpp"
#include "sft/device/ledger.hpp"

namespace sft::generate {

/// On one rank. Weights are held once, in the compute dtype.
class Generator {
 public:
  /// Plans and allocates everything (see the ledger) for texts of at most `max_tokens` tokens; weights are
  /// uninitialized until they are loaded. `compute`: float32 or bf16. `world` has one rank. All references outlive it.
  Generator(const config::Model& model, DType compute, std::int64_t max_tokens, const comm::Group& world,
            device::Device& device, comm::Collectives& collectives, device::Ledger& ledger);
  ~Generator();

  /// All weights, as the entry "model", in memory of the generator, which the state must not outlive.
  [[nodiscard]] checkpoint::State weights() const;
  [[nodiscard]] device::Stream& stream();

  [[nodiscard]] std::int64_t max_tokens() const;
  /// Logits of one token: as many as the model's vocabulary has.
  [[nodiscard]] std::int64_t vocab_size() const;
  /// The text so far. append() and rewind() change it.
  [[nodiscard]] const std::vector<std::int32_t>& tokens() const;
  /// Puts `tokens`, at least one, at the end of the text, which may not become longer than max_tokens(). Returns the
  /// logits (V) of the token that follows. Costs the work of these tokens alone.
  [[nodiscard]] std::vector<float> append(std::span<const std::int32_t> tokens);
  /// Forgets all tokens of the text but the first `num_tokens`; of a model with a layer whose state cannot be cut, all
  /// tokens, where there are more than these.
  void rewind(std::int64_t num_tokens);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace sft::generate
