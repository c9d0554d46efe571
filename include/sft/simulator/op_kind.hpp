// SPDX-License-Identifier: Apache-2.0
#pragma once
// The kinds of ops that a plan of time tells apart, and how long each takes.

#include <array>
#include <cstddef>

#include "sft/simulator/rates.hpp"

namespace sft::simulator {

/// Products by form, products of 8-bit floats, the passes of attention, and the rest by what it does to each element.
class OpKind {
 public:
  static constexpr std::size_t count = num_product_forms + 3 + ops::num_passes;

  constexpr OpKind(ProductForm form) : index_(static_cast<std::size_t>(form)) {}
  constexpr OpKind(ops::Pass pass) : index_(num_product_forms + 3 + static_cast<std::size_t>(pass)) {}
  [[nodiscard]] static constexpr OpKind fp8_product() { return OpKind(num_product_forms); }
  [[nodiscard]] static constexpr OpKind attention_forward() { return OpKind(num_product_forms + 1); }
  [[nodiscard]] static constexpr OpKind attention_backward() { return OpKind(num_product_forms + 2); }

  [[nodiscard]] constexpr std::size_t index() const { return index_; }

 private:
  constexpr explicit OpKind(std::size_t index) : index_(index) {}

  std::size_t index_;
};

/// Seconds of each kind, by OpKind::index().
using OpTimes = std::array<double, OpKind::count>;

/// "products_forward": the name of the kind with this index. Pure.
[[nodiscard]] constexpr const char* op_kind_name(std::size_t index) {
  constexpr std::array<const char*, num_product_forms + 3> names{"products_forward",         "products_input_gradient",
                                                                 "products_weight_gradient", "products_fp8",
                                                                 "attention_forward",        "attention_backward"};
  return index < names.size() ? names[index] : ops::pass_names[index - names.size()];
}

}  // namespace sft::simulator
