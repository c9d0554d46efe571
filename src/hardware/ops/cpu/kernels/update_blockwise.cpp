// SPDX-License-Identifier: Apache-2.0
// A step of AdamW with state in 8 bits, a block at a time.

#include "ops/cpu/kernels/code_search.hpp"
#include "ops/cpu/kernels/run.hpp"
#include "ops/cpu/kernels/types.hpp"
#include "ops/random_bits.hpp"
#include "ops/views/update.hpp"
#include "sft/core/block_codes.hpp"
#include "sft/ops/calls/update.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

constexpr BlockCode signed_code = make_block_code(true), unsigned_code = make_block_code(false);
constexpr CodeSearch signed_search = make_code_search(true), unsigned_search = make_code_search(false);

struct Step : UpdateFactors {
  explicit Step(const BlockwiseUpdate& op)
      : UpdateFactors(factors_of(op.update)),
        blocks(block_factors_of(op)),
        parameters(flat_view_of(op.update.parameters).data),
        has_bf16_parameters(op.update.parameters.dtype == DType::bf16),
        gradients(floats_of(op.update.gradients)),
        copy(op.update.copy.as<Bf16>()),
        codes{op.update.state[0].data, op.update.state[1].data},
        size(op.update.gradients.num_elements()) {}

  BlockFactors blocks;
  void* parameters;  ///< float32 or bf16
  bool has_bf16_parameters;
  const float* gradients;
  Bf16* copy;  ///< of float32 parameters; may be null
  void* codes[max_update_states];
  std::int64_t size;
};

/// Elements of a whole block: neighbours in the views as in the logical tensor.
struct Neighbours {
  std::int64_t first, first_number;
  std::int64_t at(std::int64_t j) const { return first + j; }
  std::int64_t number(std::int64_t j) const { return first_number + j; }
};

/// What the views hold of a block of the logical tensor.
struct Scattered {
  std::int64_t first_number;
  std::int64_t* places;
  std::uint8_t* offsets;  ///< in the block
  std::int64_t at(std::int64_t j) const { return places[j]; }
  std::int64_t number(std::int64_t j) const { return first_number + offsets[j]; }
};

/// New moments of a block's elements, and the largest magnitude of each.
struct Moments {
  float first[dynamic_block_size], second[dynamic_block_size];
  float largest[2];
};

/// The largest magnitude.
float largest_of(const float* x, std::int64_t count) {
  std::int32_t largest = 0;  // numbers that are not negative have the order of their bits
#pragma omp simd reduction(max : largest)
  for (std::int64_t j = 0; j < count; ++j) {
    const std::int32_t bits = __builtin_bit_cast(std::int32_t, x[j]) & 0x7fffffff;
    largest = largest > bits ? largest : bits;
  }
  return __builtin_bit_cast(float, largest);
}

/// Computes the moments, and with `stores` the parameters.
template <class Parameter, bool has_copy, bool stores, class Elements>
void step_block(const Step& step, Elements elements, std::int64_t count, std::int64_t scale, Moments& moments) {
  const auto* first_codes = static_cast<const std::uint8_t*>(step.codes[0]);
  const auto* second_codes = static_cast<const std::uint8_t*>(step.codes[1]);
  look_up(moments.first, signed_code.values, count, [=](std::int64_t j) { return first_codes[elements.at(j)]; });
  look_up(moments.second, unsigned_code.values, count, [=](std::int64_t j) { return second_codes[elements.at(j)]; });
  // What the loop stores might be any of these, if they were read in it.
  const AdamW::Step rule = step.rule;
  const float* gradients = step.gradients;
  const float gradient_scale = step.gradient_scale;
  const std::uint64_t key = step.key;
  auto* parameters = static_cast<Parameter*>(step.parameters);
  auto* copy = step.copy;
  const float first_scale = step.blocks.old_scales[0][scale], second_scale = step.blocks.old_scales[1][scale];
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) {
    const std::int64_t i = elements.at(j);
    float state[max_update_states] = {moments.first[j] * first_scale, moments.second[j] * second_scale};
    float parameter = stores ? load(parameters[i]) : 0;
    rule.update(parameter, gradients[i] * gradient_scale, state, [](float x) { return __builtin_sqrtf(x); });
    moments.first[j] = state[0];
    moments.second[j] = state[1];
    if constexpr (stores) {
      std::uint64_t bits = 0;
      if constexpr (sizeof(Parameter) == sizeof(Bf16)) {
        bits = squares(key, static_cast<std::uint64_t>(elements.number(j)));
      }
      store_at_random(parameters[i], parameter, bits >> 32);
      if constexpr (has_copy) store(copy[i], parameter);
    }
  }
  moments.largest[0] = largest_of(moments.first, count);
  moments.largest[1] = largest_of(moments.second, count);
}

/// Overwrites the moments.
template <class Elements>
void store_codes(const Step& step, Elements elements, std::int64_t count, std::int64_t scale, Moments& moments) {
  // A block of zeros has no scale to divide by.
  const auto divisor_of = [](float x) { return x > 0 ? x : 1.0f; };
  const float first_scale = divisor_of(step.blocks.new_scales[0][scale]);
  const float second_scale = divisor_of(step.blocks.new_scales[1][scale]);
  std::int32_t first[dynamic_block_size], second[dynamic_block_size];  // places of cells, then the cells
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) {
    moments.first[j] /= first_scale;
    moments.second[j] /= second_scale;
    first[j] = CodeSearch::cell_of(__builtin_fabsf(moments.first[j]));
    second[j] = CodeSearch::cell_of(moments.second[j]);
  }
  look_up(first, signed_search.cells, count, [&](std::int64_t j) { return first[j]; });
  look_up(second, unsigned_search.cells, count, [&](std::int64_t j) { return second[j]; });
  auto* first_codes = static_cast<std::uint8_t*>(step.codes[0]);
  auto* second_codes = static_cast<std::uint8_t*>(step.codes[1]);
#pragma omp simd
  for (std::int64_t j = 0; j < count; ++j) {
    const std::int64_t i = elements.at(j);
    first_codes[i] = static_cast<std::uint8_t>(nearest_signed_code(first[j], moments.first[j]));
    second_codes[i] = static_cast<std::uint8_t>(nearest_unsigned_code(second[j], moments.second[j]));
  }
}

/// The number, in the logical tensor, of element i of the views.
std::int64_t number_of(const Step& step, std::int64_t i) {
  const std::int64_t element = step.begin + i;
  const std::int64_t row = element / step.num_columns;
  return step.first_index + row * step.row_stride + element - row * step.num_columns;
}

/// Finds the elements of a block in the views; returns how many.
std::int64_t find_elements(const Step& step, Scattered& elements) {
  const bool is_one_row = step.begin + step.size <= step.num_columns;
  std::int64_t count = 0;
  for (std::int64_t offset = 0; offset < dynamic_block_size; ++offset) {
    const std::int64_t element = elements.first_number + offset - step.first_index;
    if (element < 0) continue;
    const std::int64_t row = is_one_row ? 0 : element / step.row_stride, column = element - row * step.row_stride;
    const std::int64_t i = row * step.num_columns + column - step.begin;
    if (column >= step.num_columns || i < 0 || i >= step.size) continue;
    elements.places[count] = i;
    elements.offsets[count++] = static_cast<std::uint8_t>(offset);
  }
  return count;
}

template <class Parameter, bool has_copy>
void update_whole(const Step& step, std::int64_t block) {
  const std::int64_t first = block * dynamic_block_size, count = min(dynamic_block_size, step.size - first);
  const Neighbours elements{first, number_of(step, first)};
  Moments moments;
  step_block<Parameter, has_copy, true>(step, elements, count, block, moments);
  for (int i = 0; i < 2; ++i) step.blocks.new_scales[i][block] = moments.largest[i];
  store_codes(step, elements, count, block, moments);
}

/// `stores`: the whole step; else it raises the new scales.
template <class Parameter, bool has_copy, bool stores>
void visit_cut(const Step& step, std::int64_t block) {
  std::int64_t places[dynamic_block_size];
  std::uint8_t offsets[dynamic_block_size];
  Scattered elements{block * dynamic_block_size, places, offsets};
  const std::int64_t count = find_elements(step, elements), scale = block - step.blocks.first_block;
  Moments moments;
  step_block<Parameter, has_copy, stores>(step, elements, count, scale, moments);
  if constexpr (stores) {
    store_codes(step, elements, count, scale, moments);
  } else {
    for (int i = 0; i < 2; ++i) {
      float& largest = step.blocks.new_scales[i][scale];
      largest = largest > moments.largest[i] ? largest : moments.largest[i];
    }
  }
}

/// Calls visit(block) for blocks [begin, end), in parallel.
template <class Visit>
void for_each_block(const Step& step, std::int64_t begin, std::int64_t end, const Visit& visit) {
#pragma omp parallel for if (step.size >= min_parallel_elements)
  for (std::int64_t block = begin; block < end; ++block) visit(block);
}

template <class Visit>
void for_each_cut_block(const Step& step, const Visit& visit) {
  if (step.size == 0) return;
  for_each_block(step, number_of(step, 0) / dynamic_block_size, number_of(step, step.size - 1) / dynamic_block_size + 1,
                 visit);
}

template <class Parameter, bool has_copy>
void update_as(const Step& step) {
  if (step.blocks.is_cut) {
    for_each_cut_block(step, [&](std::int64_t block) { visit_cut<Parameter, has_copy, true>(step, block); });
  } else {
    for_each_block(step, 0, divide_up(step.size, dynamic_block_size),
                   [&](std::int64_t block) { update_whole<Parameter, has_copy>(step, block); });
  }
}

}  // namespace

template <>
void run(const UpdateBlockwise& op, Scratch) {
  const Step step(op.step);
  if (step.has_bf16_parameters) return update_as<Bf16, false>(step);
  if (step.copy != nullptr) return update_as<float, true>(step);
  update_as<float, false>(step);
}

template <>
void run(const RaiseScales& op, Scratch) {
  const Step step(op.step);
  for_each_cut_block(step, [&](std::int64_t block) { visit_cut<float, false, false>(step, block); });
}

}  // namespace sft::ops::cpu::SFT_ISA
