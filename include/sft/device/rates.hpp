// SPDX-License-Identifier: Apache-2.0
#pragma once
// How fast a device works, as far as plans of time go: what a clocked device and a clocked backend advance their clocks
// by.

#include <cstdint>
#include <vector>

namespace sft::device {

/// A point of a curve: so many floating-point operations a second in products of this size.
struct ProductRate {
  double size;         ///< the cube root of m n k
  double flops_per_s;  ///< above 0
};

struct Rates {
  /// Of matrix products in the dtype of computing, by rising sizes, one at least. Between two of them the rate follows
  /// the logarithm of the size; beyond the ends it stays, or falls with the size below the first.
  std::vector<ProductRate> products;
  double attention_forward_flops_per_s = 0;   ///< of 4 D a pair of a query and a key that it sees, and head
  double attention_backward_flops_per_s = 0;  ///< of 10 D
  double memory_bytes_per_s = 0;              ///< read and written together
  double host_bytes_per_s = 0;                ///< between the device and the memory of its node, one way
  double launch_s = 0;                        ///< of every op beside its work
  /// Whether streams work side by side, as on a GPU; a CPU does one thing after the other.
  bool overlaps = true;

  /// Of a product (m, k) (k, n). Pure.
  [[nodiscard]] double product_flops_per_s(std::int64_t m, std::int64_t n, std::int64_t k) const;
};

}  // namespace sft::device
