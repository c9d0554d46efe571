// SPDX-License-Identifier: Apache-2.0
#pragma once
// Ops on elements, whatever they belong to. N is any number of elements.

#include <cstdint>

#include "sft/ops/describe.hpp"
#include "sft/ops/pass.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// x = value.
struct Fill {
  static constexpr const char* name = "fill";
  static constexpr Pass pass = Pass::copy;
  Tensor x;  ///< float32 or bf16, strided
  float value;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.out("x", x, "...", Types::any, strided);
    op.scalar("value", value);
  }
};

/// Whether both tensors have as many elements and, where one of them is strided, as many rows.
[[nodiscard]] inline bool are_pairs(const ConstTensor& a, const ConstTensor& b) {
  const bool are_flat = a.is_contiguous() && b.is_contiguous();
  return a.num_elements() == b.num_elements() && (are_flat || a.num_elements() == 0 || a.shape[0] == b.shape[0]);
}

/// destination = source, converted.
struct Copy {
  static constexpr const char* name = "copy";
  static constexpr Pass pass = Pass::copy;
  Tensor destination;  ///< float32 or bf16, strided
  ConstTensor source;  ///< float32 or bf16, strided; as many elements and, where one is strided, as many rows

  template <class Visitor>
  void describe(Visitor& op) const {
    op.out("destination", destination, "*", Types::any, strided);
    op.in("source", source, "*", Types::any, strided);
    op.require(are_pairs(destination, source), "source and destination have other shapes");
  }
};

/// destination += source, rounded to its dtype.
struct Add {
  static constexpr const char* name = "add";
  static constexpr Pass pass = Pass::add;
  Tensor destination;  ///< as for Copy
  ConstTensor source;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.add("destination", destination, "*", Types::any, strided);
    op.in("source", source, "*", Types::any, strided);
    op.require(are_pairs(destination, source), "source and destination have other shapes");
  }
};

/// x *= factor.
struct Scale {
  static constexpr const char* name = "scale";
  static constexpr Pass pass = Pass::add;
  Tensor x;  ///< float32 or bf16
  float factor;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.add("x", x, "...", Types::any);
    op.scalar("factor", factor);
  }
};

/// result += the sum of x^2, in float64.
struct SumSquares {
  static constexpr const char* name = "sum_squares";
  static constexpr Pass pass = Pass::sum_squares;
  static constexpr bool repeats = false;
  Tensor result;  ///< (1) float64
  ConstTensor x;  ///< float32

  template <class Visitor>
  void describe(Visitor& op) const {
    op.add("result", result, "1", Types::float64);
    op.in("x", x, "...", Types::float32);
  }
};

/// x /= max(square root of `squares`, epsilon).
struct DivideByNorm {
  static constexpr const char* name = "divide_by_norm";
  static constexpr Pass pass = Pass::sum_squares;
  static constexpr bool repeats = false;
  Tensor x;             ///< float32
  ConstTensor squares;  ///< (1) float64
  float epsilon;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.add("x", x, "...", Types::float32);
    op.in("squares", squares, "1", Types::float64);
    op.scalar("epsilon", epsilon);
  }
};

/// x[i] = a number of mean 0 and standard deviation `stddev`, drawn from (seed, first_index + i) alone (Box-Muller on a
/// counter-based generator): a slice of a tensor gets the same numbers on any mesh.
struct FillNormal {
  static constexpr const char* name = "fill_normal";
  static constexpr Pass pass = Pass::copy;
  static constexpr bool repeats = false;
  Tensor x;  ///< float32 or bf16
  std::uint64_t seed;
  std::int64_t first_index;
  float stddev;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.out("x", x, "...", Types::any);
    op.scalar("seed", seed);
    op.scalar("first_index", first_index);
    op.scalar("stddev", stddev);
    op.require(first_index >= 0, "first_index is negative");
  }
};

/// As FillNormal, evenly distributed in [-bound, bound).
struct FillUniform {
  static constexpr const char* name = "fill_uniform";
  static constexpr Pass pass = Pass::copy;
  static constexpr bool repeats = false;
  Tensor x;  ///< float32 or bf16
  std::uint64_t seed;
  std::int64_t first_index;
  float bound;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.out("x", x, "...", Types::any);
    op.scalar("seed", seed);
    op.scalar("first_index", first_index);
    op.scalar("bound", bound);
    op.require(first_index >= 0, "first_index is negative");
  }
};

/// x += the numbers of FillUniform, rounded once.
struct AddUniform {
  static constexpr const char* name = "add_uniform";
  static constexpr Pass pass = Pass::add;
  static constexpr bool repeats = false;
  Tensor x;  ///< float32 or bf16
  std::uint64_t seed;
  std::int64_t first_index;
  float bound;

  template <class Visitor>
  void describe(Visitor& op) const {
    op.add("x", x, "...", Types::any);
    op.scalar("seed", seed);
    op.scalar("first_index", first_index);
    op.scalar("bound", bound);
    op.require(first_index >= 0, "first_index is negative");
  }
};

}  // namespace sft::ops
