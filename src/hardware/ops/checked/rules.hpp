// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rules of one call, as its op describes them. A rule that is broken is a std::logic_error, which names the op and
// the tensor, and says what it is and what it has to be.

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sft/core/dtype.hpp"
#include "sft/ops/calls/attention.hpp"
#include "sft/ops/describe.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops::checked {

/// Whether an element of the one lies in the memory of an element of the other.
[[nodiscard]] bool share_memory(const ConstTensor& a, const ConstTensor& b);

/// A visitor of ops that holds every tensor against its description. Sizes of letters are those of the tensors that
/// have them first.
class Rules {
 public:
  explicit Rules(std::string_view op) : op_(op) {}

  void in(std::string_view name, const ConstTensor& x, std::string_view dims, Types types, Form form = contiguous);
  void unread(std::string_view name, const ConstTensor& x, std::string_view dims, Types types, Form form = contiguous) {
    in(name, x, dims, types, form);
  }
  void out(std::string_view name, const Tensor& x, std::string_view dims, Types types, Form form = contiguous);
  void add(std::string_view name, const Tensor& x, std::string_view dims, Types types, Form form = contiguous) {
    out(name, x, dims, types, form);
  }
  void dim(char letter, std::int64_t size) { size_of(letter) = size; }
  void may_be(std::string_view name, std::string_view other) { exceptions_.push_back({name, other}); }
  void require(bool holds, std::string_view problem) const;
  void plan(const AttentionPlan& plan, char queries, char keys);
  template <class Scalar>
  void scalar(std::string_view /*name*/, const Scalar& /*value*/) {}

  /// After all tensors of the call: a written one shares memory with no other tensor but one that it may be.
  void check_memory() const;

 private:
  struct Operand {
    std::string_view name;
    ConstTensor tensor;
    bool is_written;
  };
  struct Exception {
    std::string_view name, other;
  };
  static constexpr std::size_t num_letters = 128;

  [[nodiscard]] std::optional<std::int64_t>& size_of(char letter) { return sizes_[static_cast<unsigned char>(letter)]; }
  /// The shape that the words of `dims` ask of x, whose sizes the letters take that have none yet.
  [[nodiscard]] std::vector<std::int64_t> shape_of(const ConstTensor& x, std::string_view dims);
  /// Whether a tensor of this dtype may have it; the first one of the compute dtype decides it.
  [[nodiscard]] bool fits(DType dtype, Types types);
  void check(std::string_view name, const ConstTensor& x, std::string_view dims, Types types, Form form);
  [[nodiscard]] bool is_exception(const Operand& a, const Operand& b) const;

  std::string_view op_;
  std::array<std::optional<std::int64_t>, num_letters> sizes_{};
  std::optional<std::vector<std::int64_t>> any_dims_;  ///< of "..."
  std::optional<DType> compute_;
  std::vector<Operand> operands_;
  std::vector<Exception> exceptions_;
};

}  // namespace sft::ops::checked
