// SPDX-License-Identifier: Apache-2.0
#pragma once
// Steps of the optimizers that treat elements alone, over vectors (N).

#include <array>
#include <cstdint>
#include <variant>

#include "sft/ops/describe.hpp"
#include "sft/ops/pass.hpp"
#include "sft/ops/stochastic_rounding.hpp"
#include "sft/ops/update_rules.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

using UpdateRule = UpdateRuleList<std::variant>;

inline constexpr std::array<const char*, max_update_states> state_names = {"state[0]", "state[1]"};

/// One step, computed in float32. bf16 results are rounded as `rounding` says.
struct Update {
  static constexpr const char* name = "update";
  static constexpr Pass pass = Pass::update;
  static constexpr bool repeats = false;
  Tensor parameters;      ///< float32 or bf16
  ConstTensor gradients;  ///< float32; may be the parameters
  /// All float32 or all bf16: as many as the rule keeps. Others that are given are not touched.
  std::array<Tensor, max_update_states> state;
  Tensor copy;  ///< bf16, or empty: receives new float32 parameters, rounded to the nearest
  UpdateRule rule;
  double gradient_scale = 1.0;  ///< clipping factor, applied to the gradient as it is read
  StochasticRounding rounding = {};

  template <class Visitor>
  void describe(Visitor& op) const {
    describe_gradients(op);
    describe_parameters(op);
    const std::size_t num_states =
        std::visit([]<class Rule>(const Rule&) { return std::size_t{Rule::Step::num_states}; }, rule);
    for (std::size_t i = 0; i < state.size(); ++i) {
      i < num_states ? op.add(state_names[i], state[i], "N", Types::any)
                     : op.unread(state_names[i], state[i], "N", Types::any, optional);
    }
    op.require(state[1].empty() || state[1].dtype == state[0].dtype, "state[1] has another dtype than state[0]");
  }

  template <class Visitor>
  void describe_gradients(Visitor& op) const {
    op.in("gradients", gradients, "N", Types::float32);
    op.scalar("rule", rule.index());
    op.scalar("gradient_scale", gradient_scale);
    op.scalar("rounding.key", rounding.key);
    op.scalar("rounding.first_index", rounding.first_index);
    op.require(rounding.num_columns > 0, "rounding.num_columns is no number of columns");
  }
  template <class Visitor>
  void describe_parameters(Visitor& op) const {
    op.add("parameters", parameters, "N", Types::any);
    op.may_be("parameters", "gradients");
    op.out("copy", copy, "N", Types::bf16, optional);
    op.require(copy.empty() || parameters.dtype == DType::float32,
               "copy is given with bf16 parameters, which have none");
  }
};

/// Neighbouring elements of a parameter that share a scale, where state is kept in 8 bits.
inline constexpr std::int64_t block_elements = 256;

/// One step of AdamW with state in 8 bits (Dettmers et al. 2022, "8-bit Optimizers via Block-wise Quantization"): the
/// value of an element is that of its code, in the dynamic code of the paper, times the scale of its block. New moments
/// are computed in float32; the parameter follows from them, and they are rounded to the nearest code, negative ones to
/// a negative one.
struct BlockwiseUpdate {
  /// The rule is AdamW. State: codes, uint8, exp_avg's with a sign, exp_avg_sq's without.
  Update update;
  /// float32, of both moments: the largest magnitude of each block.
  std::array<Tensor, max_update_states> scales;
  /// Empty: blocks follow each other in the views, the last one may be shorter, and their new scales take the place of
  /// the old ones. Else blocks are those of the logical tensor, in which update.rounding says which elements these are:
  /// some of a block may be elsewhere. The first scale is that of block first_block; the old ones are only read, and
  /// these are the new ones.
  std::array<Tensor, max_update_states> new_scales = {};
  std::int64_t first_block = 0;

  /// Codes and scales. `writes_codes`: the codes become new ones.
  template <class Visitor>
  void describe_blocks(Visitor& op, bool writes_codes) const {
    constexpr std::array<const char*, max_update_states> scale_names = {"scales[0]", "scales[1]"},
                                                         new_scale_names = {"new_scales[0]", "new_scales[1]"};
    update.describe_gradients(op);
    op.require(std::holds_alternative<AdamW>(update.rule), "rule is not AdamW");
    op.scalar("first_block", first_block);
    const std::int64_t size = update.gradients.num_elements();
    const bool is_cut = !new_scales[0].empty();
    const std::int64_t num_scales =
        is_cut ? new_scales[0].num_elements() : (size + block_elements - 1) / block_elements;
    op.dim('B', num_scales);
    op.require(!is_cut || size == 0 || num_blocks(size) <= num_scales,
               "new_scales[0] has fewer scales than there are blocks");
    for (std::size_t i = 0; i < scales.size(); ++i) {
      writes_codes ? op.add(state_names[i], update.state[i], "N", Types::uint8)
                   : op.in(state_names[i], update.state[i], "N", Types::uint8);
      is_cut ? op.in(scale_names[i], scales[i], "B", Types::float32)
             : op.add(scale_names[i], scales[i], "B", Types::float32);
      op.out(new_scale_names[i], new_scales[i], "B", Types::float32, is_cut ? contiguous : optional);
      op.require(is_cut || new_scales[i].empty(), "new_scales[1] is given without new_scales[0]");
    }
  }

 private:
  /// Blocks, from the first one that has scales, up to the last that has one of `size` elements of the step.
  [[nodiscard]] std::int64_t num_blocks(std::int64_t size) const {
    const StochasticRounding& part = update.rounding;
    const std::int64_t last = part.begin + size - 1;
    const std::int64_t index = part.first_index + last / part.num_columns * part.row_stride + last % part.num_columns;
    return index / block_elements - first_block + 1;
  }
};

struct UpdateBlockwise {
  static constexpr const char* name = "update_blockwise";
  static constexpr Pass pass = Pass::update;
  static constexpr bool repeats = false;
  BlockwiseUpdate step;

  template <class Visitor>
  void describe(Visitor& op) const {
    step.describe_blocks(op, true);
    step.update.describe_parameters(op);
  }
};

/// new_scales = the larger of itself and the scales that the update gives the moments of these elements, block by
/// block; the update's parameters and copy are not touched and may be empty, and codes and scales are only read.
struct RaiseScales {
  static constexpr const char* name = "raise_scales";
  static constexpr Pass pass = Pass::update;
  static constexpr bool repeats = false;
  BlockwiseUpdate step;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.require(!step.new_scales[0].empty(), "new_scales[0] is empty");
    step.describe_blocks(op, false);
  }
};

}  // namespace sft::ops
