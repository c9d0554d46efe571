// SPDX-License-Identifier: Apache-2.0
#pragma once
// What every part of the model computes with, and the sizes of this rank's slice.

#include <cstdint>
#include <functional>
#include <span>

#include "sft/config/config.hpp"
#include "sft/device/device.hpp"
#include "sft/model/layers/expert_sizes.hpp"
#include "sft/ops/backend.hpp"
#include "sft/parallel/expert_exchange.hpp"
#include "sft/parallel/sequence_attention.hpp"
#include "sft/parallel/sharded_units.hpp"
#include "sft/parallel/tensor_parallel.hpp"

namespace sft::model {

/// Local sizes that layers share: T tokens of a micro-batch at most, C hidden, V vocabulary rows, of which the tp ranks
/// have at most max_vocab. Of the residual stream and its norms a rank has S = T / token_slices tokens: those of
/// parallel::TensorParallel::slice. What else a layer needs on a rank follows from what it declared.
struct Sizes {
  std::int64_t tokens, hidden, vocab, vocab_begin, max_vocab;
  DType compute;
  DType partial;         ///< dtype of what is yet to be summed over tp: float32 with several ranks, else `compute`
  int token_slices = 1;  ///< the ranks of tp where they cut tokens, else 1; divides T
  int tp_size = 1;       ///< ranks that share heads and columns
  ExpertSizes experts = {};

  /// Whether what a sublayer reads, what it adds and the gradient of what it reads lie in one memory (BlockScratch).
  [[nodiscard]] bool shares_branches() const { return tp_size == 1 && experts.count == 0; }
  [[nodiscard]] std::int64_t slice_tokens() const { return tokens / token_slices; }
};

class AdapterBuffers;
class Fp8Buffers;
struct GradientCodes;

/// References to what outlives the model.
struct Context {
  const config::Model& config;
  Sizes sizes;
  device::Device& device;
  ops::Backend& ops;
  parallel::ShardedUnits& units;
  parallel::TensorParallel& tp;
  parallel::SequenceAttention& attention;
  AdapterBuffers& adapters;
  parallel::ExpertExchange& experts;
  /// Adds up numbers of all ranks of the world, which all call it; none: there is one rank, or nothing is sent.
  std::function<void(std::span<double> values)> sum_over_world = {};
  /// Where products of linear layers of blocks are in 8-bit floats: what they work in; else null.
  const Fp8Buffers* fp8 = nullptr;
};

/// work(), named in the timeline.
template <class Work>
void timed(const Context& context, const char* name, const Work& work) {
  device::timed(context.device.timeline(), context.ops.stream(), {.category = "model", .what = name}, work);
}

/// x *= embedding_multiplier: the embedding, contiguous, or its gradient.
void scale_embedding(const Context& context, const Tensor& x);

/// The weight of a norm, which is in use.
[[nodiscard]] inline ops::NormWeight norm_weight(const Context& context, const parallel::ParameterGroup& norm) {
  return {context.units.parameter(norm), context.config.zero_centered_norms ? 1.0F : 0.0F};
}

/// Noise that is added to the embeddings of neighbouring tokens (NEFTune, Jain et al. 2023): element c of token i gets
/// number (first_token + i) C + c of those that ops::AddUniform draws from the seed.
struct EmbeddingNoise {
  std::int64_t begin, num_tokens;  ///< of this rank's tokens
  std::uint64_t seed;
  std::int64_t first_token;
  float bound;
};

/// A micro-batch in device memory, each (T): T is any multiple of Sizes::token_slices up to Sizes::tokens, the same on
/// all ranks of sp and tp. Shapes of a pass follow from it, never from Sizes::tokens, which is what buffers are laid
/// out for.
struct Inputs {
  Tensor tokens, positions, targets;  ///< int32
  Tensor loss_weights;                ///< float32
  std::int64_t num_padding = 0;       ///< tokens at the end that stand in no document
  /// As ops::Dropout has seeds: this micro-batch's on the ranks that share its tokens (the tp group). Empty: nothing is
  /// dropped.
  Tensor dropout_seed{};
};

}  // namespace sft::model
