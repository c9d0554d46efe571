// SPDX-License-Identifier: Apache-2.0
#pragma once
// The matrix products of a model, without computing any.

#include <set>
#include <unordered_set>

#include "ops/product_blocks.hpp"
#include "ops/product_key.hpp"
#include "sft/ops/listed_products.hpp"
#include "sft/ops/null_backend.hpp"

namespace sft::ops {

/// Computes nothing, over the addresses of sizing arenas, and keeps one product of each key that a library would be
/// given, blocks of what is beyond its limits; of 8-bit floats one whole product of each key.
class ProductList final : public NullBackend {
 public:
  using NullBackend::NullBackend;

  void run(const Call& call) override {
    if (const auto* const product = std::get_if<Matmul>(&call)) note(*product);
    if (const auto* const product = std::get_if<Fp8Matmul>(&call)) note(*product);
  }

  /// In the order of their first calls.
  [[nodiscard]] const ListedProducts& products() const { return products_; }

 private:
  void note(const Matmul& product) {
    if (product.c.empty() || product.a.empty()) return;
    for_each_block(product, {}, [this](const Matmul& block) {
      if (keys_.insert(key_of(block)).second) products_.plain.push_back(block);
    });
  }
  void note(const Fp8Matmul& product) {
    if (product.c.empty()) return;
    if (fp8_keys_.insert(key_of(product)).second) products_.in_fp8.push_back(product);
  }

  std::unordered_set<ProductKey, ProductKeyHash> keys_;
  std::set<Fp8ProductKey> fp8_keys_;
  ListedProducts products_;
};

}  // namespace sft::ops
