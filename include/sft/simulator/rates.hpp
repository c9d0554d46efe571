// SPDX-License-Identifier: Apache-2.0
#pragma once
// How fast a device works, as far as plans of time go: what a clocked device and a clocked backend advance their clocks
// by. Few numbers, as a maker's sheet has them, or many, as they are measured on a machine that is there
// (check/measure_machine.hpp).

#include <array>
#include <cstdint>
#include <vector>

#include "sft/ops/pass.hpp"

namespace sft::simulator {

/// A point of a curve: so many floating-point operations a second in products of this size.
struct ProductRate {
  double size;         ///< the cube root of m n k; of attention the keys that a query sees in the mean
  double flops_per_s;  ///< above 0
};

/// Which operand of a product (m, k) (k, n) is stored transposed: those of a linear layer's forward pass, of its
/// input's gradient, and of its weight's.
enum class ProductForm { second, none, first };
inline constexpr std::size_t num_product_forms = 3;
inline constexpr std::array<const char*, num_product_forms> product_form_names{"second", "none", "first"};

/// Rates of products of all m, n and k out of `sides`; empty: not measured.
struct ProductGrid {
  std::vector<double> sides;  ///< rising
  /// By form: of m = sides[i], n = sides[j], k = sides[l] at (i * sides.size() + j) * sides.size() + l.
  std::array<std::vector<double>, num_product_forms> flops_per_s = {};

  /// Logarithms of sides and rates are interpolated between the sides; beyond them the rate stays. Pure.
  [[nodiscard]] double rate(ProductForm form, std::int64_t m, std::int64_t n, std::int64_t k) const;
};

/// A point of a curve: so many bytes a second, read and written together, where an op touches so many.
struct PassRate {
  double bytes;
  double bytes_per_s;  ///< above 0
};

/// Of attention by the keys that a query sees in the mean, by rising sizes; empty: not known.
struct AttentionRates {
  std::vector<ProductRate> forward = {}, backward = {};
};

struct Rates {
  /// Of matrix products in the dtype of computing, by rising sizes, one at least. Between two of them the rate follows
  /// the logarithm of the size; beyond the ends it stays, or falls with the size below the first.
  std::vector<ProductRate> products;
  ProductGrid product_grid = {};              ///< in place of `products` where it was measured
  double fp8_speedup = 1;                     ///< of products of 8-bit floats: how often those rates
  double attention_forward_flops_per_s = 0;   ///< of 4 D a pair of a query and a key that it sees, and head
  double attention_backward_flops_per_s = 0;  ///< of 10 D
  /// In place of the two where they were measured, by rising sizes.
  AttentionRates attention = {};
  AttentionRates attention_cudnn = {}, attention_hopper = {};  ///< of kernels that [device] attention may name
  AttentionRates attention_cudnn_unordered = {};               ///< of its backward pass
  double memory_bytes_per_s = 0;                               ///< read and written together
  /// In place of memory_bytes_per_s where they were measured, by rising bytes.
  std::array<std::vector<PassRate>, ops::num_passes> passes = {};
  double host_bytes_per_s = 0;  ///< between the device and the memory of its node, one way
  double file_bytes_per_s = 0;  ///< to a disk of the node or from it, this device's share; 0: not known
  double launch_s = 0;          ///< of every op beside its work, where that was not measured with it
  /// What an op takes the host that queues it, which does one after the other; 0: nothing that counts.
  double host_launch_s = 0;
  /// The same of an op that is queued with others by one launch (LaunchTape), beside that launch.
  double host_repeat_s = 0;
  /// Whether streams work side by side, as on a GPU; a CPU does one thing after the other.
  bool overlaps = true;

  /// Of a product (m, k) (k, n) by `products`. Pure.
  [[nodiscard]] double product_flops_per_s(std::int64_t m, std::int64_t n, std::int64_t k) const;
  /// Seconds of so many products that touch so many bytes in all, of the rates of products times `speedup`. Pure.
  [[nodiscard]] double products_s(ProductForm form, double count, std::int64_t m, std::int64_t n, std::int64_t k,
                                  double num_bytes, double speedup = 1) const;
  /// Seconds of attention with so many operations, in which a query sees so many keys in the mean. Pure.
  [[nodiscard]] double attention_forward_s(double num_flops, double keys, double num_bytes) const;
  [[nodiscard]] double attention_backward_s(double num_flops, double keys, double num_bytes) const;
  /// Seconds of an op that touches so many bytes. Pure.
  [[nodiscard]] double pass_s(ops::Pass pass, double num_bytes) const;

  /// The same where ranks have `factor` of the processor that they had: every rate times `factor`. Pure.
  [[nodiscard]] Rates scaled(double factor) const;
};

}  // namespace sft::simulator
