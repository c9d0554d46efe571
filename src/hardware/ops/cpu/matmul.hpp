// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrix products through oneDNN; of our own where those are faster (own_matmul.hpp), of float32 numbers on AVX2, and
// of bf16 ones but where vectors have fast instructions for them; and small ones with float64 sums.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <unordered_map>
#include <vector>

#include "ops/cpu/isa.hpp"
#include "sft/ops/backend.hpp"

namespace sft::ops::cpu {

/// Scratch bytes that products on `num_threads` threads use at most.
[[nodiscard]] std::size_t matmul_workspace_bytes(int num_threads);

/// Shapes of products whose machine code is kept. When there are more, all of it is forgotten and made anew as needed,
/// which takes about a millisecond for each.
inline constexpr std::int64_t max_kept_products = 512;

/// Multiplications of a float32 product from which on its sums are float32; smaller ones take no machine code.
inline constexpr std::int64_t least_planned_multiplications = std::int64_t{1} << 21;

/// Runs products, keeping what oneDNN has generated for each shape. Not thread-safe.
class MatmulEngine {
 public:
  /// With the kernels of `isa`; keeps the machine code of at most `max_kept` shapes.
  explicit MatmulEngine(Isa isa, std::int64_t max_kept = max_kept_products);
  ~MatmulEngine();

  /// What products have in common that run by the same machine code.
  struct Key {
    std::int64_t m, n, k, a_stride, b_stride, c_stride;
    std::uint32_t flags;  ///< flags_of
    int num_threads;
    bool operator==(const Key&) const = default;
    /// Of a and b.
    [[nodiscard]] bool is_bf16() const;
    /// Whether there are others' numbers between the rows of a matrix.
    [[nodiscard]] bool has_gaps() const;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  [[nodiscard]] static Key key_of(const Matmul& product);
  /// Whether the product is float32 and takes less time than would be noticed, and its scratch fits: it runs without
  /// machine code of its own.
  [[nodiscard]] static bool is_small(const Matmul& product, std::size_t workspace_bytes);
  /// Whether it is a product of our own kernels with `isa`, which take no machine code for each shape either.
  [[nodiscard]] static bool is_own(const Matmul& product, std::size_t workspace_bytes, Isa isa);
  /// Whether float32 tiles take less time than oneDNN's product of these bf16 numbers with `isa`: unless it is of few
  /// columns, or the transpose of few (the gradient of a weight with few rows). It does not depend on how many tokens a
  /// micro-batch has, which rows of other products are: plans count the machine code of the largest for all of them.
  [[nodiscard]] static bool is_faster_in_float32(const Matmul& product, Isa isa);

  /// The product of ops::Backend::matmul. `workspace` is scratch for the duration of the call.
  void run(const Matmul& product, Tensor workspace);
  /// The product in float32 on converted tiles, for bf16 on processors that have no such product or a slower one.
  /// float32 holds every product of two bf16 numbers; only the order of sums differs.
  void run_in_float32(const Matmul& product, Tensor workspace);
  /// The product of ops::Backend::fp8_matmul, on tiles of numbers that are read of the codes: in bf16 where that has
  /// fast products, which holds every such number (one below 2^-126 counts as 0 there), else in float32. Sums are
  /// float32.
  void run_fp8(const Fp8Matmul& product, Tensor workspace);
  /// Whether products of 8-bit floats are all of our own kernels with `isa`: oneDNN has several products, each with
  /// another order of sums, and takes one by the shape. It has them where vectors have fast instructions for bf16.
  [[nodiscard]] static bool has_own_fp8_products(Isa isa);
  /// Of others, what run_fp8 makes of the product's tiles, at least one of each kind, on as many threads as OpenMP has:
  /// operands have no data.
  [[nodiscard]] static std::vector<Matmul> fp8_tiles(const Fp8Matmul& product);

 private:
  /// A part of an operand, after the transposition asked for.
  struct Part {
    std::int64_t row, num_rows, column, num_columns;
  };
  /// A product whose operands are read tile by tile: each function writes a part of its operand.
  struct TiledProduct {
    std::function<void(const Tensor&to, const Part&part)> read_a, read_b;
    std::int64_t depth;  ///< terms of a sum
    Tensor c;
    bool accumulate;
    ConstTensor bias;
    DType tiles = DType::float32;     ///< what is read
    bool transposed_b_tiles = false;  ///< whether the function writes the part's transpose
    bool are_own = false;             ///< whether all are products of our own kernels, whatever their sizes
  };
  class Plan;

  [[nodiscard]] std::unique_ptr<Plan> make_plan(const Matmul& product, std::size_t workspace_bytes) const;
  /// The product of operands without terms to sum (k = 0), which oneDNN does not take: one term, which is 0.
  void run_without_terms(const Matmul& product, Tensor workspace);
  /// The product as it runs best here.
  void run_planned(const Matmul& product, Tensor workspace);
  void run_small(const Matmul& product, Tensor workspace) const;
  void run_own(const Matmul& product, Tensor workspace) const;
  /// The product in two halves of the rows or columns of c: oneDNN asks for scratch that grows with them.
  void run_halves(const Matmul& product, Tensor workspace);
  void run_tiles(const TiledProduct& product, Tensor workspace);

  Isa isa_;
  std::int64_t max_kept_;
  const Kernels& kernels_;
  std::unordered_map<Key, std::unique_ptr<Plan>, KeyHash> plans_;
};

}  // namespace sft::ops::cpu
