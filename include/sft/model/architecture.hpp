// SPDX-License-Identifier: Apache-2.0
#pragma once
// The units and parameters of a decoder under their Hugging Face names, and the layers that use them. Pure.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sft/config/valid_config.hpp"
#include "sft/model/layer_plan.hpp"
#include "sft/model/linear/parameters.hpp"
#include "sft/ops/fp8.hpp"
#include "sft/parallel/part.hpp"

namespace sft::model {

class Sublayer;

/// The number of a block of the decoder, from the embedding on; Hugging Face counts layers so.
using BlockIndex = Index<struct Block>;

/// RMSNorms around a sublayer.
struct NormGroups {
  parallel::ParameterGroup input;   ///< of the residual stream, which it reads, with LayerPlan::norms_inputs
  parallel::ParameterGroup branch;  ///< of what it adds, with LayerPlan::norms_branches
};

/// A sublayer, and what the block has around it.
struct BlockSublayer {
  parallel::UnitIndex unit;               ///< has the parameters
  std::shared_ptr<const Sublayer> layer;  ///< never null
  NormGroups norms;
};

/// The parameters of one block, and what it does with them.
struct BlockParameters {
  LayerPlan plan;
  /// One at least, in the order of the forward pass: most families have attention, then an MLP. Units are the same or
  /// follow each other.
  std::vector<BlockSublayer> sublayers;
};

struct DecoderParameters {
  parallel::ParameterGroup embedding;  ///< (V, C)
  IndexedVector<BlockIndex, BlockParameters> blocks;
  parallel::ParameterGroup final_norm;
  Linear head;  ///< in the embedding's unit when tied

  [[nodiscard]] parallel::UnitIndex embedding_unit() const { return embedding.unit; }
  [[nodiscard]] parallel::UnitIndex head_unit() const { return final_norm.unit; }

  /// The units of all sublayers, in the order of a forward pass.
  [[nodiscard]] std::vector<parallel::UnitIndex> block_units() const;
  /// The units in the order in which a forward pass enters them, for ShardedUnits::begin_pass.
  [[nodiscard]] std::vector<parallel::UnitIndex> forward_units() const;
  /// The units in the order in which a forward pass and the backward pass behind it enter them. `recomputes`: every
  /// block but the last runs block_recompute() first.
  [[nodiscard]] std::vector<parallel::UnitIndex> forward_backward_units(bool recomputes) const;
};

/// Units: embedding, blocks, head, in this order, a unit for `blocks_per_unit` blocks, or, where that is 0, one for
/// each sublayer. Names, logical shapes, splits and initialization.
struct Architecture {
  /// Parameters that are trained are in one part, all others in another one, and experts apart from both in two more;
  /// no part is without parameters. Here is decided which parts a model has, and which parameter is in which.
  IndexedVector<parallel::PartIndex, parallel::PartUnits> parts;
  DecoderParameters parameters;
};

/// Which numbers of a weight share a scale, where its codes are sent; else none.
using SentTiles = std::optional<ops::Fp8Tiles>;

/// By the name of a parameter: whether it is trained. Parameters that ops use as one must agree, else std::logic_error.
using IsTrainable = std::function<bool(const std::string& name)>;
[[nodiscard]] inline bool all_parameters(const std::string&) { return true; }

/// The architecture of a model. Adapters are always trainable, and so are the copies of modules that `lora` trains
/// whole, in whose place they are; the names of both are those of PEFT. `cuts_tokens`: the ranks
/// of tp have different tokens between two products (parallel::TensorParallel), so each has a part of the gradient of a
/// norm. `sends_fp8`: matrices that products in fp8 read, with scales of these tiles, are in parts of their own
/// (PartUnits::in_fp8).
[[nodiscard]] Architecture make_architecture(const config::Model& model,
                                             const IsTrainable& is_trainable = all_parameters,
                                             const config::Lora& lora = {}, int blocks_per_unit = 1,
                                             bool cuts_tokens = false, SentTiles sends_fp8 = {});
/// The architecture that a run trains: all its parameters are trainable or, with use_peft, adapters and copies alone.
[[nodiscard]] Architecture make_architecture(const config::ValidConfig& config);
/// Whether the run may gather weights as codes of 8-bit floats, where several ranks share a unit, and which numbers of
/// them share a scale.
[[nodiscard]] SentTiles sends_fp8(const config::ValidConfig& config);
/// The same, shared with earlier calls that were for an equal one: a search plans thousands of runs of a model. Of the
/// last few, by thread.
[[nodiscard]] std::shared_ptr<const Architecture> shared_architecture(const config::ValidConfig& config);

}  // namespace sft::model
