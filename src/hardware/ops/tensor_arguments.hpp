// SPDX-License-Identifier: Apache-2.0
#pragma once
// From the arguments of ops::Backend to those of the kernels, for all backends. Broken contracts throw
// std::logic_error.

#include <variant>

#include "ops/kernel_arguments.hpp"
#include "sft/core/block_codes.hpp"
#include "sft/core/ensure.hpp"
#include "sft/ops/backend.hpp"
#include "sft/tensor/tensor.hpp"

namespace sft::ops {

/// The first dim are the rows; all others, which are contiguous, the columns.
template <class Memory>
[[nodiscard]] BasicView<Memory> view_of(const BasicTensor<Memory>& x) {
  if (x.data == nullptr) return {};
  SFT_ENSURE(x.dtype == DType::float32 || x.dtype == DType::bf16, "ops: float32 or bf16 expected");
  const std::int64_t columns = x.row_elements();
  return {x.data, x.dtype == DType::bf16, x.shape[0], columns, x.shape[0] > 1 ? x.stride0 : columns};
}

/// A contiguous tensor as one long row.
template <class Memory>
[[nodiscard]] BasicView<Memory> flat_view_of(const BasicTensor<Memory>& x) {
  SFT_ENSURE(x.is_contiguous() || x.shape[0] <= 1, "ops: contiguous tensor expected");
  BasicView<Memory> view = view_of(x);
  view.columns *= view.rows;
  view.rows = 1;
  view.stride = view.columns;
  return view;
}

/// The elements of a contiguous float32 tensor.
template <class Memory>
[[nodiscard]] auto* floats_of(const BasicTensor<Memory>& x) {
  SFT_ENSURE(x.dtype == DType::float32, "ops: float32 expected");
  SFT_ENSURE(x.is_contiguous() || x.shape[0] <= 1, "ops: contiguous tensor expected");
  return x.template as<float>();
}

[[nodiscard]] inline CrossEntropyArguments arguments_of(const CrossEntropy& chunk) {
  const std::int64_t rows = chunk.logits.shape[0];
  float* partials = floats_of(chunk.partials);
  const TokenLoss& loss = chunk.loss;
  SFT_ENSURE(chunk.partials.shape[0] == loss.num_partials(), "ops: a row of partials for each sum of the loss");
  SFT_ENSURE(loss.label_smoothing == 0.0 || (loss.vocab > 0 && !loss.dft),
             "ops: smoothing of a vocabulary of this size");
  return {.logits = floats_of(chunk.logits),
          .max = floats_of(chunk.max),
          .sum_exp = partials,
          .target_logit = partials + rows,
          .sum_exp_logit = partials + 2 * rows,
          .sum_logit = loss.num_partials() == 4 ? partials + 3 * rows : nullptr,
          .targets = chunk.targets.as<std::int32_t>(),
          .weights = floats_of(chunk.loss_weights),
          .rows = rows,
          .columns = chunk.logits.shape[1],
          .vocab_begin = chunk.vocab_begin,
          .dft = loss.dft,
          .smoothing = loss.label_smoothing,
          .inverse_vocab = loss.vocab > 0 ? 1.0 / static_cast<double>(loss.vocab) : 0.0,
          .logit_cap = chunk.logit_cap};
}

/// Checks the dtypes of the step too, as ops::Update says.
[[nodiscard]] inline UpdateFactors factors_of(const Update& step) {
  SFT_ENSURE(step.gradients.dtype == DType::float32, "ops: float32 expected");
  SFT_ENSURE(step.copy.empty() || step.parameters.dtype == DType::float32, "bf16 parameters have no copy");
  SFT_ENSURE(step.state[1].empty() || step.state[0].dtype == step.state[1].dtype, "state has one dtype");
  const StochasticRounding& rounding = step.rounding;
  return {.rule = std::visit([](const auto& rule) { return StepOfAnyRule::of(rule); }, step.rule),
          .gradient_scale = static_cast<float>(step.gradient_scale),
          .key = rounding.key | 1U,
          .first_index = rounding.first_index,
          .num_columns = rounding.num_columns,
          .row_stride = rounding.row_stride,
          .begin = rounding.begin};
}

/// Checks dtypes and sizes too, as ops::ReadFourBits says.
[[nodiscard]] inline FourBitArguments four_bit_arguments_of(const ReadFourBits& read) {
  const std::int64_t record_bytes = read.form.record_bytes();
  SFT_ENSURE(read.out.row_elements() % four_bit_block == 0, "ops: rows of whole blocks");
  SFT_ENSURE(read.records.dtype == DType::uint8, "ops: uint8 expected");
  SFT_ENSURE(read.records.num_elements() == read.out.num_elements() / four_bit_block * record_bytes,
             "ops: a record for each block");
  SFT_ENSURE(read.form.is_nested == !read.nested.empty(), "ops: nested scales have scales");
  return {.records = read.records.as<std::uint8_t>(),
          .record_bytes = record_bytes,
          .values = read.form.values(),
          .nested = read.form.is_nested ? floats_of(read.nested) : nullptr,
          .first_block = read.first_block,
          .row_blocks = read.row_blocks};
}

static_assert(block_elements == dynamic_block_size);

/// Checks the dtypes and sizes too, as ops::BlockwiseUpdate says.
[[nodiscard]] inline BlockFactors block_factors_of(const BlockwiseUpdate& step) {
  SFT_ENSURE(std::holds_alternative<AdamW>(step.update.rule), "blockwise state is AdamW's");
  BlockFactors factors{.is_cut = !step.new_scales[0].empty(), .first_block = step.first_block};
  const std::int64_t size = step.update.gradients.num_elements();
  for (std::size_t i = 0; i < step.scales.size(); ++i) {
    const Tensor& codes = step.update.state[i];
    SFT_ENSURE(codes.dtype == DType::uint8 && codes.num_elements() == size, "an element has a code");
    SFT_ENSURE(codes.is_contiguous(), "ops: contiguous tensor expected");
    SFT_ENSURE(factors.is_cut || step.scales[i].num_elements() == (size + block_elements - 1) / block_elements,
               "a block has a scale");
    factors.old_scales[i] = floats_of(step.scales[i]);
    factors.new_scales[i] = floats_of(factors.is_cut ? step.new_scales[i] : step.scales[i]);
  }
  return factors;
}

/// What of a product, beside sizes and strides, decides how it is computed: one bit each.
/// Elements from a row of a matrix to the next.
[[nodiscard]] inline std::int64_t row_stride(const ConstTensor& x) { return x.shape[0] > 1 ? x.stride0 : x.shape[1]; }

inline constexpr std::uint32_t flag_transpose_a = 1, flag_transpose_b = 2, flag_bf16 = 16;  ///< of flags_of
[[nodiscard]] inline std::uint32_t flags_of(const Matmul& product) {
  const auto bit = [](bool set, int position) { return static_cast<std::uint32_t>(set) << position; };
  return bit(product.transpose_a, 0) | bit(product.transpose_b, 1) | bit(product.accumulate, 2) |
         bit(product.bias.data != nullptr, 3) | bit(product.a.dtype == DType::bf16, 4) |
         bit(product.c.dtype == DType::bf16, 5) | bit(product.bias.dtype == DType::bf16, 6);
}

}  // namespace sft::ops
