// SPDX-License-Identifier: Apache-2.0
#pragma once
// The matrix products of a model, without computing any.

#include <unordered_set>
#include <vector>

#include "ops/null/backend.hpp"
#include "ops/product_blocks.hpp"
#include "ops/product_key.hpp"

namespace sft::ops::null {

/// Computes nothing, over the addresses of sizing arenas, and keeps one product of each key that a library would be
/// given, blocks of what is beyond its limits.
class ProductList final : public NullBackend {
 public:
  using NullBackend::NullBackend;

  void matmul(const Matmul& product) override {
    if (product.c.empty() || product.a.empty()) return;
    for_each_block(product, {}, [this](const Matmul& block) {
      if (keys_.insert(key_of(block)).second) products_.push_back(block);
    });
  }

  /// In the order of their first calls.
  [[nodiscard]] const std::vector<Matmul>& products() const { return products_; }

 private:
  std::unordered_set<ProductKey, ProductKeyHash> keys_;
  std::vector<Matmul> products_;
};

}  // namespace sft::ops::null
