// SPDX-License-Identifier: Apache-2.0

#include <fmt/core.h>
#include <array>
#include <string>
#include <variant>
#include <vector>

#include "ops/checked/call.hpp"

namespace sft::ops::checked {

namespace {

constexpr std::array<std::string_view, 2> state_names = {"state[0]", "state[1]"},
                                          scale_names = {"scales[0]", "scales[1]"},
                                          new_scale_names = {"new_scales[0]", "new_scales[1]"};

std::size_t num_states_of(const UpdateRule& rule) {
  return std::visit([]<class Rule>(const Rule&) { return std::size_t{Rule::Step::num_states}; }, rule);
}

void check_parameters(Call& call, const Update& step) {
  const std::int64_t size = step.gradients.num_elements();
  call.out("parameters", step.parameters, {size}, any_compute);
  call.may_be("parameters", "gradients");
  if (step.copy.empty()) return;
  call.require(step.parameters.dtype == DType::float32, "copy is given with bf16 parameters, which have none");
  call.out("copy", step.copy, {size}, DType::bf16);
}

void check_gradients(Call& call, const Update& step) {
  call.in("gradients", step.gradients, {step.gradients.num_elements()}, DType::float32);
  call.require(step.rounding.num_columns > 0, "rounding.num_columns is no number of columns");
}

/// Blocks, from the first one that has scales, up to the last that has one of `size` elements of the step.
std::int64_t num_blocks_of(const BlockwiseUpdate& step, std::int64_t size) {
  const StochasticRounding& part = step.update.rounding;
  const std::int64_t last = part.begin + size - 1;
  const std::int64_t index = part.first_index + last / part.num_columns * part.row_stride + last % part.num_columns;
  return index / block_elements - step.first_block + 1;
}

/// Codes and scales. `writes_state`: the codes become new ones, and so do the scales where there are no others.
void check_blocks(Call& call, const BlockwiseUpdate& step, bool writes_state) {
  const Update& update = step.update;
  call.require(std::holds_alternative<AdamW>(update.rule), "rule is not AdamW");
  check_gradients(call, update);
  const std::int64_t size = update.gradients.num_elements();
  const bool is_cut = !step.new_scales[0].empty();
  const std::int64_t num_scales =
      is_cut ? step.new_scales[0].num_elements() : (size + block_elements - 1) / block_elements;
  call.require(!is_cut || size == 0 || num_blocks_of(step, size) <= num_scales,
               "new_scales[0] has fewer scales than there are blocks");
  for (std::size_t i = 0; i < step.scales.size(); ++i) {
    if (writes_state) {
      call.out(state_names[i], update.state[i], {size}, DType::uint8);
    } else {
      call.in(state_names[i], update.state[i], {size}, DType::uint8);
    }
    if (is_cut) {
      call.in(scale_names[i], step.scales[i], {num_scales}, DType::float32);
      call.out(new_scale_names[i], step.new_scales[i], {num_scales}, DType::float32);
    } else {
      call.require(step.new_scales[i].empty(), fmt::format("{} is given without new_scales[0]", new_scale_names[i]));
      call.out(scale_names[i], step.scales[i], {num_scales}, DType::float32);
    }
  }
}

}  // namespace

void check_update(std::string_view op, const Update& step) {
  Call call(op);
  check_gradients(call, step);
  check_parameters(call, step);
  const std::size_t num_states = num_states_of(step.rule);
  for (std::size_t i = 0; i < step.state.size(); ++i) {
    const DTypes dtypes = i == 0 ? any_compute : DTypes(step.state[0].dtype);
    if (i < num_states) {
      call.out(state_names[i], step.state[i], {step.gradients.num_elements()}, dtypes);
    } else if (!step.state[i].empty()) {
      call.in(state_names[i], step.state[i], {step.gradients.num_elements()}, dtypes);
    }
  }
  call.check_memory();
}

void check_blockwise_update(std::string_view op, const BlockwiseUpdate& step) {
  Call call(op);
  check_blocks(call, step, true);
  check_parameters(call, step.update);
  call.check_memory();
}

void check_raised_scales(std::string_view op, const BlockwiseUpdate& step) {
  Call call(op);
  call.require(!step.new_scales[0].empty(), "new_scales[0] is empty");
  check_blocks(call, step, false);
  call.check_memory();
}

void check_square_sums(std::string_view op, const SquareSums& sums) {
  Call call(op);
  call.require_dims("x", sums.x, 2);
  call.in("x", sums.x, shape_of(sums.x), DType::float32);
  if (!sums.rows.empty()) call.out("rows", sums.rows, {sums.x.shape[0]}, DType::float64);
  if (!sums.columns.empty()) call.out("columns", sums.columns, {sums.x.shape[1]}, DType::float64);
  call.check_memory();
}

void check_moment_factors(std::string_view op, const MomentFactors& step) {
  Call call(op);
  const std::int64_t size = step.moment.num_elements();
  call.out("moment", step.moment, {size}, DType::float32);
  call.in("sums", step.sums, {size}, DType::float64);
  call.out("factors", step.factors, {size}, DType::float32);
  call.require(step.count > 0, "count is no number of elements");
  call.check_memory();
}

void check_factored_update(std::string_view op, const FactoredUpdate& step, bool writes_parameters) {
  Call call(op);
  call.require_dims("gradients", step.gradients, 2);
  const std::vector<std::int64_t> shape = shape_of(step.gradients);
  call.in("gradients", step.gradients, shape, DType::float32);
  if (!step.row_factors.empty()) call.in("row_factors", step.row_factors, {shape[0]}, DType::float32);
  call.in("column_factors", step.column_factors, {shape[1]}, DType::float32);
  call.require(step.num_elements > 0, "num_elements is no number of elements");
  if (writes_parameters) {
    call.in("squares", step.squares, {1}, DType::float64);
    call.out("parameters", step.parameters, shape, any_compute);
    if (!step.copy.empty()) {
      call.require(step.parameters.dtype == DType::float32, "copy is given with bf16 parameters, which have none");
      call.out("copy", step.copy, shape, DType::bf16);
    }
  } else {
    call.out("squares", step.squares, {1}, DType::float64);
  }
  call.check_memory();
}

}  // namespace sft::ops::checked
