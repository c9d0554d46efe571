// SPDX-License-Identifier: Apache-2.0
#pragma once
// The words in which an op describes itself. An op is a struct with its name and one function
//
//     template <class Visitor> void describe(Visitor& op) const;
//
// that calls, for every tensor and every number of the op, one function of the visitor:
//
//     op.in("x", x, "T C", Types::compute);                  // a tensor that is read
//     op.out("y", y, "T C", Types::compute, strided);        // one that is overwritten
//     op.add("dweight", dweight, "C", Types::float32);       // one that is read and written
//     op.unread("codes", codes, "L K", Types::uint8);        // one that the op takes and does not look at
//     op.scalar("epsilon", epsilon);                         // a number, bool or enum
//     op.dim('K', num_choices);                              // a size that no tensor has alone
//     op.may_be("y", "x");                                   // y may be the tensor x, element for element
//     op.require(epsilon > 0, "epsilon is not above 0");     // any other rule
//     op.plan(plan, 'T', 'U');                               // an AttentionPlan for T queries and U keys
//
// Checks, keys of repeated launches, bytes and the generated tests are visitors.
//
// Dims are words: a letter is a size, which the first tensor that has it decides; "2F" and "E+1" follow from one; a
// number is itself; "..." stands for any dims, the same ones wherever it occurs in the call, and "*" for any dims.

#include <cstdint>

namespace sft::ops {

/// Dtypes that a tensor of a call may have.
enum class Types : std::uint8_t {
  float32,
  bf16,
  float64,
  int32,
  uint8,
  compute,             ///< float32 or bf16: the same in all tensors of the call that have it
  compute_or_float32,  ///< the compute dtype of the call, or float32
  any,                 ///< float32 or bf16, whatever other tensors have
};

/// How a tensor of a call may lie; flags.
using Form = unsigned;
inline constexpr Form contiguous = 0;
inline constexpr Form strided = 1;   ///< there may be gaps between its rows
inline constexpr Form optional = 2;  ///< may be empty

/// A visitor that ignores everything: others derive from it and hide what they look at.
struct IgnoringVisitor {
  template <class... Arguments>
  void in(const Arguments&...) {}
  template <class... Arguments>
  void out(const Arguments&...) {}
  template <class... Arguments>
  void add(const Arguments&...) {}
  template <class... Arguments>
  void unread(const Arguments&...) {}
  template <class... Arguments>
  void scalar(const Arguments&...) {}
  template <class... Arguments>
  void dim(const Arguments&...) {}
  template <class... Arguments>
  void may_be(const Arguments&...) {}
  template <class... Arguments>
  void require(const Arguments&...) {}
  template <class... Arguments>
  void plan(const Arguments&...) {}
};

/// Whether a call may come again with the same arguments, in the next micro-batch: all ops but those that say
/// `static constexpr bool repeats = false`, whose seeds, factors or rows of experts differ each time.
template <class Op>
[[nodiscard]] constexpr bool can_repeat() {
  if constexpr (requires { Op::repeats; }) {
    return Op::repeats;
  } else {
    return true;
  }
}

}  // namespace sft::ops
