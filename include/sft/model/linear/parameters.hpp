// SPDX-License-Identifier: Apache-2.0
#pragma once
// The parameters of a linear layer: the matrices that it is made of, and their adapters. Pure.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/parallel/shard_map.hpp"

namespace sft::model {

/// The logical shape of a parameter, and how the ranks of tp share it.
struct Shape {
  std::int64_t rows, columns;  ///< no columns: a vector
  parallel::TpSplit split;
  std::int64_t num_kv_heads = 0;  ///< with TpSplit::kv_rows: the heads that the rows belong to

  /// Rows and columns of a rank of so many.
  [[nodiscard]] std::int64_t local_rows(int tp_size) const;
  [[nodiscard]] std::int64_t local_columns(int tp_size) const;
};

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

/// One of the matrices that a linear layer is made of.
struct LinearMember {
  std::string module;  ///< its path in the model: model.layers.0.self_attn.q_proj
  Shape shape;

  /// The last part of the path: q_proj.
  [[nodiscard]] std::string name() const { return module.substr(module.rfind('.') + 1); }
};

/// A linear layer y = x weight^T [+ bias] [+ adapters].
struct Linear {
  parallel::ParameterGroup weight;    ///< several matrices may be fused: their rows one after the other
  parallel::ParameterGroup bias;      ///< exists() or not
  std::vector<LinearMember> members;  ///< the matrices; empty for the head
  std::vector<Adapter> adapters;      ///< for none, some or all of the matrices
  bool is_head = false;               ///< its products are never in 8-bit floats

  [[nodiscard]] parallel::UnitIndex unit() const { return weight.unit; }
  /// Columns of y and of x on a rank of so many.
  [[nodiscard]] std::int64_t columns_out(int tp_size) const;
  [[nodiscard]] std::int64_t columns_in(int tp_size) const { return members.front().shape.local_columns(tp_size); }
};

}  // namespace sft::model
