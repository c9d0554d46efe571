// SPDX-License-Identifier: Apache-2.0
#pragma once
// The rules that the arguments of one call of an op keep. A rule that is broken is a std::logic_error, which names the
// op and the tensor, and says what it is and what it has to be.

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "sft/core/dtype.hpp"
#include "sft/ops/backend.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops::checked {

/// Dtypes that a tensor may have.
class DTypes {
 public:
  constexpr DTypes(DType one) : bits_(bit(one)) {}
  constexpr DTypes(std::initializer_list<DType> some) {
    for (const DType one : some) bits_ |= bit(one);
  }
  [[nodiscard]] constexpr bool contains(DType one) const { return (bits_ & bit(one)) != 0; }

 private:
  static constexpr unsigned bit(DType one) { return 1U << static_cast<unsigned>(one); }
  unsigned bits_ = 0;
};

/// What activations and gathered parameters have.
inline constexpr DTypes any_compute{DType::float32, DType::bf16};

enum class Layout { contiguous, strided };

/// All dims of x, for what may have any.
[[nodiscard]] inline std::vector<std::int64_t> shape_of(const ConstTensor& x) {
  return {x.shape.begin(), x.shape.begin() + x.ndim};
}

/// Whether an element of the one lies in the memory of an element of the other.
[[nodiscard]] bool share_memory(const ConstTensor& a, const ConstTensor& b);

class Call {
 public:
  explicit Call(std::string_view op) : op_(op) {}

  /// A tensor that the op reads, of this shape, one of these dtypes, and with gaps between rows only where it may have
  /// them. There is memory behind it unless it has no elements.
  void in(std::string_view name, const ConstTensor& x, const std::vector<std::int64_t>& shape, DTypes dtypes,
          Layout layout = Layout::contiguous);
  /// A tensor that the op writes, under the same rules as in().
  void out(std::string_view name, const Tensor& x, const std::vector<std::int64_t>& shape, DTypes dtypes,
           Layout layout = Layout::contiguous);
  /// The written tensor `name` may be `other`, another of the call: the same elements at the same place.
  void may_be(std::string_view name, std::string_view other);
  /// Behind all tensors of the call: what is written shares memory with no other tensor but one that it may be.
  void check_memory() const;

  /// Throws unless x has `ndim` dims.
  void require_dims(std::string_view name, const ConstTensor& x, int ndim) const;
  /// Throws unless `holds`: `problem` begins with the name of the tensor or number.
  void require(bool holds, const std::string& problem) const;

 private:
  struct Operand {
    std::string_view name;
    ConstTensor tensor;
    bool is_written;
  };
  struct Exception {
    std::string_view name, other;
  };

  void check(std::string_view name, const ConstTensor& x, const std::vector<std::int64_t>& shape, DTypes dtypes,
             Layout layout) const;
  [[nodiscard]] bool is_exception(const Operand& a, const Operand& b) const;

  std::string_view op_;
  std::vector<Operand> operands_;
  std::vector<Exception> exceptions_;
};

/// The dtype of x, which has to be that of activations and gathered parameters.
[[nodiscard]] DType compute_of(const Call& call, std::string_view name, const ConstTensor& x);

// The rules of the norms over columns of several ranks, as ops/split_norm.hpp states them (split_norm_rules.cpp).

void check_split_norm_squares(const Tensor& squares, const ConstTensor& x);
void check_split_norm(const SplitNormForward& norm);
void check_split_norm(const SplitNormDots& norm);
void check_split_norm(const SplitNormBackward& norm);

/// The rules of the op that makes numbers of codes, as ops/four_bits.hpp states them (four_bit_rules.cpp).
void check_read_four_bits(const ReadFourBits& read);

// The rules of the ops on matrices of 8-bit floats, as ops/fp8.hpp states them (fp8_rules.cpp).

void check_find_fp8_scale(const RoundToFp8& round);
void check_round_to_fp8(const RoundToFp8& round);
void check_raise_fp8_scales(const Fp8Run& run);
void check_round_fp8_run(const Fp8Run& run);
void check_arrange_fp8(const ArrangeFp8& arrange);
void check_fp8_matmul(const Fp8Matmul& product);

// The rules of the ops that make an optimizer's step, as ops/backend.hpp states them (optimizer_rules.cpp).

void check_update(std::string_view op, const Update& step);
void check_blockwise_update(std::string_view op, const BlockwiseUpdate& step);
/// The rules of Backend::raise_scales, which needs neither parameters nor a copy.
void check_raised_scales(std::string_view op, const BlockwiseUpdate& step);
void check_square_sums(std::string_view op, const SquareSums& sums);
void check_moment_factors(std::string_view op, const MomentFactors& step);
/// The rules of Backend::update_factored, or, without `writes_parameters`, of add_direction_squares.
void check_factored_update(std::string_view op, const FactoredUpdate& step, bool writes_parameters);

}  // namespace sft::ops::checked
