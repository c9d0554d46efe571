// SPDX-License-Identifier: Apache-2.0
#pragma once
// What tells calls of ops apart: an op's kind and every argument, in words. Structures are taken apart here into all
// their members at once, so that one that is added and not named does not compile.

#include <bit>
#include <concepts>
#include <cstdint>
#include <vector>

#include "sft/ops/backend.hpp"

namespace sft::ops::repeated {

/// Of the keys of ops that are put off; 0 is none (Device::fill_zero).
enum class Kind : std::uint64_t {
  fill = 1,
  copy,
  add,
  scale,
  dropout,
  embedding_forward,
  embedding_backward,
  rms_norm_forward,
  add_rms_norm_forward,
  rms_norm_apply,
  rms_norm_backward,
  split_norm_squares,
  split_norm_forward,
  split_norm_dots,
  split_norm_backward,
  rope_table,
  rope_forward,
  rope_backward,
  norm_rope_forward,
  norm_rope_backward,
  matmul,
  bias_backward,
  scale_columns,
  column_products,
  row_products,
  magnitude_factors,
  read_four_bits,
  find_fp8_scale,
  round_to_fp8,
  raise_fp8_scales,
  round_fp8_run,
  arrange_fp8,
  fp8_matmul,
  attention_forward,
  attention_delta,
  attention_backward,
  attention_sinks_backward,
  swiglu_forward,
  swiglu_backward,
  gated_forward,
  gated_backward,
  soft_cap,
  cross_entropy_max,
  cross_entropy_partials,
};

/// The key of an op: its kind, how long the key is, and every argument.
class Words {
 public:
  template <class... Arguments>
  const std::vector<std::uint64_t>& of(Kind kind, const Arguments&... arguments) {
    words_.assign(1, 0);
    (add(arguments), ...);
    words_.front() = static_cast<std::uint64_t>(kind) << 32U | words_.size();
    return words_;
  }

 private:
  void add(std::integral auto value) { words_.push_back(static_cast<std::uint64_t>(value)); }
  void add(float value) { words_.push_back(std::bit_cast<std::uint32_t>(value)); }
  void add(double value) { words_.push_back(std::bit_cast<std::uint64_t>(value)); }
  void add(const ConstTensor& x) {
    words_.push_back(reinterpret_cast<std::uintptr_t>(x.data));
    words_.push_back(static_cast<std::uint64_t>(x.dtype) << 32U | static_cast<std::uint64_t>(x.ndim));
    for (int dim = 0; dim < x.ndim; ++dim) add(x.shape[dim]);
    add(x.stride0);
  }
  void add(const Tensor& x) { add(ConstTensor(x)); }
  void add(const std::vector<std::uint64_t>& words) { words_.insert(words_.end(), words.begin(), words.end()); }
  void add(const NormWeight& weight) {
    add(weight.tensor);
    add(weight.offset);
  }
  void add(const RopeTable& table) {
    const auto& [cosine, sine] = table;
    add_all(cosine, sine);
  }
  void add(const RopeScale& scale) {
    const auto& [factor, beta, length] = scale;
    add_all(factor, beta, length);
  }
  void add(const GateRule& rule) {
    const auto& [gate, alpha, limit, interleaved] = rule;
    add_all(static_cast<int>(gate), alpha, limit, interleaved);
  }
  void add(const Dropout& dropout) {
    const auto& [out, in, probability, seed, number, part, first_index, accumulate] = dropout;
    add_all(out, in, probability, seed, number, part, first_index, accumulate);
  }
  void add(const SplitNormForward& norm) {
    const auto& [y, rstd, x, squares, weight, all_columns, epsilon] = norm;
    add_all(y, rstd, x, squares, weight, all_columns, epsilon);
  }
  void add(const SplitNormDots& norm) {
    const auto& [dots, dweight, dy, x, rstd, weight] = norm;
    add_all(dots, dweight, dy, x, rstd, weight);
  }
  void add(const SplitNormBackward& norm) {
    const auto& [dx, dy, x, rstd, dots, weight, all_columns] = norm;
    add_all(dx, dy, x, rstd, dots, weight, all_columns);
  }
  void add(const ScaleColumns& columns) {
    const auto& [out, in, factors, shift, bias, accumulate] = columns;
    add_all(out, in, factors, shift, bias, accumulate);
  }
  void add(const ColumnProducts& products) {
    const auto& [sums, a, b, factors] = products;
    add_all(sums, a, b, factors);
  }
  void add(const RowProducts& products) {
    const auto& [sums, a, b, factor] = products;
    add_all(sums, a, b, factor);
  }
  void add(const MagnitudeFactors& found) {
    const auto& [factors, inverse_norms, magnitudes, squares] = found;
    add_all(factors, inverse_norms, magnitudes, squares);
  }
  void add(const ReadFourBits& read) {
    const auto& [out, records, form, nested, first_block, row_blocks] = read;
    const auto& [type, is_nested] = form;
    add_all(out, records, static_cast<int>(type), is_nested, nested, first_block, row_blocks);
  }
  void add(const ConstFp8Matrix& x) {
    const auto& [codes, scales, format, tiles] = x;
    add_all(codes, scales, static_cast<int>(format), static_cast<int>(tiles));
  }
  void add(const Fp8Matrix& x) { add(ConstFp8Matrix(x)); }
  void add(const RoundToFp8& round) {
    const auto& [out, in, transpose, turned] = round;
    add_all(out, in, transpose, turned);
  }
  void add(const Fp8Run& run) {
    const auto& [codes, in, first, lines, terms, scales, tiles] = run;
    add_all(codes, in, first, lines, terms, scales, static_cast<int>(tiles));
  }
  void add(const ArrangeFp8& arrange) {
    const auto& [out, in, transpose, out_scales, in_scales] = arrange;
    add_all(out, in, transpose, out_scales, in_scales);
  }
  void add(const Fp8Matmul& product) {
    const auto& [a, b, c, accumulate, bias] = product;
    add_all(a, b, c, accumulate, bias);
  }
  void add(const CrossEntropy& chunk) {
    const auto& [logits, max, partials, targets, loss_weights, vocab_begin, loss, logit_cap] = chunk;
    const auto& [dft, label_smoothing, vocab] = loss;
    add_all(logits, max, partials, targets, loss_weights, vocab_begin, dft, label_smoothing, vocab, logit_cap);
  }

  template <class... Members>
  void add_all(const Members&... members) {
    (add(members), ...);
  }

  std::vector<std::uint64_t> words_;
};

}  // namespace sft::ops::repeated
