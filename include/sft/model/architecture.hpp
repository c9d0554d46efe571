// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a decoder is made of: its units and parameters under their Hugging Face names, and handles
// that say which of them an op uses; and how attention heads lie over tp. Pure.

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sft/config/valid_config.hpp"
#include "sft/model/layer_plan.hpp"
#include "sft/model/sublayer.hpp"
#include "sft/ops/fp8.hpp"
#include "sft/parallel/part.hpp"

namespace sft::model {

/// Numbers that a block has for its adapters: the first are those of q, k, v, o, gate, up and down.
inline constexpr std::uint64_t max_adapters_of_block = 16;

/// LoRA (Hu et al. 2021) of one matrix W of a linear layer, N columns of its output: y += scale b a dropout(x). With a
/// magnitude (DoRA, Liu et al. 2024) rows of W + scale b a have that norm: y is multiplied with magnitude / norm, of
/// which the norm has no gradient; what is dropped, the factor does not reach.
struct Adapter {
  parallel::ParameterGroup a;          ///< (R, M)
  parallel::ParameterGroup b;          ///< (N, R)
  parallel::ParameterGroup magnitude;  ///< (N); exists() or not
  int member = 0;                      ///< which of the fused matrices it belongs to
  bool splits_input = false;           ///< tp ranks hold different columns of x, not of y
  float scale = 1.0F;                  ///< of the product
  std::uint64_t number = 0;            ///< different for every adapter of the model, whatever its units
};

/// A linear layer y = x weight^T [+ bias] [+ adapters].
struct Linear {
  parallel::ParameterGroup weight;  ///< several matrices may be fused: their rows one after the other
  parallel::ParameterGroup bias;    ///< exists() or not
  std::vector<Adapter> adapters;    ///< for none, some or all of the matrices
  bool is_head = false;             ///< its products are never in 8-bit floats

  [[nodiscard]] parallel::UnitIndex unit() const { return weight.unit; }
};

/// The number of a block of the decoder, from the embedding on; Hugging Face counts layers so.
using BlockIndex = Index<struct Block>;

/// RMSNorms around attention or an MLP.
struct NormGroups {
  parallel::ParameterGroup input;   ///< of the residual stream, which it reads, with LayerPlan::norms_inputs
  parallel::ParameterGroup branch;  ///< of what it adds, with LayerPlan::norms_branches
};

/// The parameters of one block, and what it does with them.
struct BlockParameters {
  LayerPlan plan;
  parallel::UnitIndex attention_unit;  ///< has qkv, o, q_norm, k_norm, sinks and attention_norms
  parallel::UnitIndex mlp_unit;        ///< has the others: the next unit, or the same one
  Linear qkv, o;
  parallel::ParameterGroup q_norm, k_norm;  ///< as LayerPlan::QkNorm says
  parallel::ParameterGroup sinks;           ///< (H), where the plan has them
  std::shared_ptr<const Mlp> mlp;           ///< of LayerPlan::MlpKind; never null
  NormGroups attention_norms, mlp_norms;
};

struct DecoderParameters {
  parallel::ParameterGroup embedding;  ///< (V, C)
  IndexedVector<BlockIndex, BlockParameters> blocks;
  parallel::ParameterGroup final_norm;
  Linear head;  ///< in the embedding's unit when tied

  [[nodiscard]] parallel::UnitIndex embedding_unit() const { return embedding.unit; }
  [[nodiscard]] parallel::UnitIndex head_unit() const { return final_norm.unit; }

  /// The units in the order in which a forward pass enters them, for ShardedUnits::begin_pass.
  [[nodiscard]] std::vector<parallel::UnitIndex> forward_units() const;
  /// The units in the order in which a forward pass and the backward pass behind it enter them. `recomputes`: every
  /// block but the last computes its attention again first.
  [[nodiscard]] std::vector<parallel::UnitIndex> forward_backward_units(bool recomputes) const;
};

/// Units: embedding, blocks, head, in this order, a unit for `blocks_per_unit` blocks, or, where that is 0, two for
/// each block: attention and MLP. Names, logical shapes, splits and initialization.
struct Architecture {
  /// Parameters that are trained are in one part, all others in another one, and experts apart from both in two more;
  /// no part is without parameters. Here is decided which parts a model has, and which parameter is in which.
  IndexedVector<parallel::PartIndex, parallel::PartUnits> parts;
  DecoderParameters parameters;
};

/// Whether the parameter is the A or the B of an adapter, by its name.
[[nodiscard]] bool is_factor_of_adapter(const std::string& parameter);

/// The A and B of an adapter of a linear layer, and the weight that it belongs to, by name.
struct AdapterNames {
  std::string module;  ///< its path in the model
  std::string a, b, weight;
};
/// Those of a parameter that is the A of such an adapter; none for other parameters.
[[nodiscard]] std::optional<AdapterNames> adapter_of_a(const std::string& parameter);

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

/// The heads of one rank. With fewer key/value heads than ranks, tp_size / num_key_value_heads neighbouring ranks hold
/// the same one.
struct HeadSplit {
  int q_heads = 1;      ///< local query heads
  int kv_heads = 1;     ///< local key/value heads
  int kv_begin = 0;     ///< global index of the first local key/value head
  int kv_replicas = 1;  ///< ranks that hold each key/value head
};
/// The heads of rank `tp_rank`. Throws std::logic_error unless tp_size divides num_attention_heads, and of
/// num_key_value_heads and tp_size one divides the other.
[[nodiscard]] HeadSplit split_heads(const config::Model& model, int tp_size, TpRank tp_rank);

/// How many ranks hold each key/value head.
[[nodiscard]] inline int kv_replicas(const config::Model& model, int tp_size) {
  return split_heads(model, tp_size, 0).kv_replicas;
}

}  // namespace sft::model
