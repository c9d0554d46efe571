// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <boost/test/unit_test.hpp>
#include <string>

#include "emulation/ops/support.hpp"
#include "sft/core/block_codes.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(optimizer)

namespace {

constexpr AdamW usual{.learning_rate = 1e-2,
                      .beta1 = 0.9,
                      .beta2 = 0.99,
                      .epsilon = 1e-8,
                      .weight_decay = 0.1,
                      .bias_correction1 = 0.1,
                      .bias_correction2 = 0.01};

/// A rectangle of a logical tensor, of which a call sees a part.
constexpr StochasticRounding rectangle{
    .key = 0xfedcba9876543211U, .first_index = 12345, .num_columns = 13, .row_stride = 100, .begin = 5};

void compare_step(const UpdateRule& rule, DType parameter_dtype, DType moment_dtype, bool has_copy, std::int64_t size,
                  Layout layout, const StochasticRounding& rounding, bool is_exact) {
  const char* const names[] = {"adamw ", "lion ", "sgd ", "momentum "};
  const std::size_t num_states = std::array<std::size_t, 4>{2, 1, 0, 1}[rule.index()];
  const std::string what = names[rule.index()] + text_of(parameter_dtype) + ", moments " + text_of(moment_dtype) +
                           (has_copy ? ", copy" : "") + ", " + std::to_string(size) + " from " +
                           std::to_string(layout.offset);
  Twin parameters = Twin(parameter_dtype, {size}, layout).normal(1), gradients(DType::float32, {size}, layout),
       first(moment_dtype, {size}, layout), second = Twin(moment_dtype, {size}, layout).normal(4, 1e-3, 1.0),
       copy(DType::bf16, {has_copy ? size : 0}, layout);
  if (is_exact) {
    std::move(gradients).filled(0.0);
    std::move(first).filled(0.0);
  } else {
    std::move(gradients).normal(2);
    std::move(first).normal(3, 0.1);
  }
  // Where float32 results differ by a unit, rounding at random may go the other way.
  const auto tolerance = [&](DType dtype) { return is_exact ? Tolerance{} : tolerance_of(dtype); };
  check(what,
        {out(parameters, tolerance(parameter_dtype)), in(gradients), out(first, tolerance(moment_dtype)),
         out(second, tolerance(moment_dtype)), out(copy, tolerance(DType::bf16))},
        [&](Backend& ops, auto of) {
          ops.run(Update{.parameters = of(parameters),
                         .gradients = of(gradients),
                         .state = {num_states > 0 ? of(first) : Tensor(), num_states > 1 ? of(second) : Tensor()},
                         .copy = has_copy ? of(copy) : Tensor(),
                         .rule = rule,
                         .gradient_scale = 0.7,
                         .rounding = rounding});
        });
}

/// `codes`, uint8 of any values; scales of the blocks that these elements touch. Codes are compared by what they stand
/// for: where float32 results differ by a unit, a number half way between two codes may get the other one.
void compare_blocks(DType parameter_dtype, bool has_copy, std::int64_t size, bool is_cut, bool raises,
                    const StochasticRounding& where, Layout layout) {
  const auto number_of = [&](std::int64_t i) {
    const std::int64_t element = where.begin + i, row = element / where.num_columns;
    return where.first_index + row * where.row_stride + element - row * where.num_columns;
  };
  const std::int64_t first_block = is_cut ? number_of(0) / block_elements : 0;
  const std::int64_t num_blocks =
      is_cut ? number_of(size - 1) / block_elements + 1 - first_block : (size + block_elements - 1) / block_elements;
  const std::string what = std::string(raises ? "raise scales " : "blockwise ") + text_of(parameter_dtype) +
                           (has_copy ? ", copy" : "") + (is_cut ? ", cut, " : ", ") + std::to_string(size) + " from " +
                           std::to_string(layout.offset);
  const auto any_code = [](std::int64_t i, std::int64_t) { return static_cast<double>(i * 37 % 256); };
  Twin parameters = Twin(parameter_dtype, {size}, layout).normal(1),
       gradients = Twin(DType::float32, {size}, layout).normal(2),
       first = Twin(DType::uint8, {size}, layout).filled(any_code),
       second = Twin(DType::uint8, {size}, layout).filled(any_code), copy(DType::bf16, {has_copy ? size : 0}, layout),
       first_scales = Twin(DType::float32, {num_blocks}, layout).normal(5, 0.1, 1.0),
       second_scales = Twin(DType::float32, {num_blocks}, layout).normal(6, 0.1, 1.0),
       first_new = Twin(DType::float32, {num_blocks}, layout).normal(7, 0.1, 3.0),
       second_new = Twin(DType::float32, {num_blocks}, layout).normal(8, 0.1, 3.0);
  const Tolerance one_code{.absolute = 1.0};
  check(what,
        {out(parameters, tolerance_of(parameter_dtype)), in(gradients), out(first, one_code), out(second, one_code),
         out(copy, tolerance_of(DType::bf16)), out(first_scales, tolerance_of(DType::float32)),
         out(second_scales, tolerance_of(DType::float32)), out(first_new, tolerance_of(DType::float32)),
         out(second_new, tolerance_of(DType::float32))},
        [&](Backend& ops, auto of) {
          const BlockwiseUpdate step{
              .update = {.parameters = of(parameters),
                         .gradients = of(gradients),
                         .state = {of(first), of(second)},
                         .copy = has_copy ? of(copy) : Tensor(),
                         .rule = usual,
                         .gradient_scale = 0.7,
                         .rounding = where},
              .scales = {of(first_scales), of(second_scales)},
              .new_scales = {is_cut ? of(first_new) : Tensor(), is_cut ? of(second_new) : Tensor()},
              .first_block = first_block};
          if (raises) {
            ops.run(RaiseScales{step});
          } else {
            ops.run(UpdateBlockwise{step});
          }
        });
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_rule_of_every_dtype) {
  const UpdateRule rules[] = {usual, Lion{1e-2, 0.9, 0.99, 0.1}, Sgd{1e-2, 0.1}, Momentum{0.95, true}};
  for (const StochasticRounding& rounding : {StochasticRounding{.key = 99}, rectangle}) {
    for (const Layout layout : flat_layouts) {
      for (const std::int64_t size : with_large<std::int64_t>({0, 1, 7, 64, 3003}, {1000003})) {
        for (const UpdateRule& rule : rules) {
          for (const DType moment_dtype : compute_dtypes) {
            compare_step(rule, DType::float32, moment_dtype, false, size, layout, rounding, false);
            compare_step(rule, DType::float32, moment_dtype, true, size, layout, rounding, false);
            compare_step(rule, DType::bf16, moment_dtype, false, size, layout, rounding, false);
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(blocks_of_codes) {
  const StochasticRounding one_row{.key = 77, .first_index = 512, .num_columns = 1 << 30, .row_stride = 1 << 30};
  const StochasticRounding cut_row{
      .key = 77, .first_index = 700, .num_columns = 1 << 30, .row_stride = 1 << 30, .begin = 33};
  for (const Layout layout : flat_layouts) {
    for (const std::int64_t size : with_large<std::int64_t>({1, 256, 300, 2600}, {4000000})) {
      for (const auto& [dtype, has_copy] :
           {std::pair{DType::float32, false}, {DType::float32, true}, {DType::bf16, false}}) {
        compare_blocks(dtype, has_copy, size, false, false, one_row, layout);
        compare_blocks(dtype, has_copy, size, true, false, cut_row, layout);
        compare_blocks(dtype, has_copy, size, true, false, rectangle, layout);
      }
      compare_blocks(DType::float32, false, size, true, true, cut_row, layout);
      compare_blocks(DType::float32, false, size, true, true, rectangle, layout);
    }
  }
}

// A negative moment that is next to nothing beside the largest of its block keeps its sign: the code below that of
// zero. None of these numbers is near a border between codes, so all codes are those of the CPU.
BOOST_AUTO_TEST_CASE(negative_moments_keep_their_sign) {
  constexpr std::int64_t size = 2 * block_elements + 9, num_blocks = 3;
  constexpr double tiny = 1e-12;
  const auto of_kind = [](std::int64_t i, std::int64_t) { return i % 5 == 0 ? 1.0 : i % 3 == 0 ? tiny : -tiny; };
  const auto zero = [](std::int64_t, std::int64_t) { return static_cast<double>(signed_zero_code); };
  for (const Layout layout : flat_layouts) {
    Twin parameters = Twin(DType::float32, {size}, layout).normal(1),
         gradients = Twin(DType::float32, {size}, layout).filled(of_kind),
         first = Twin(DType::uint8, {size}, layout).filled(zero), second(DType::uint8, {size}, layout),
         first_scales = Twin(DType::float32, {num_blocks}, layout).normal(5, 0.1, 1.0),
         second_scales = Twin(DType::float32, {num_blocks}, layout).normal(6, 0.1, 1.0);
    check("negative moments from " + std::to_string(layout.offset),
          {out(parameters, tolerance_of(DType::float32)), in(gradients), out(first, Tolerance{}),
           out(second, Tolerance{.absolute = 1.0}), out(first_scales, tolerance_of(DType::float32)),
           out(second_scales, tolerance_of(DType::float32))},
          [&](Backend& ops, auto of) {
            ops.run(UpdateBlockwise{{.update = {.parameters = of(parameters),
                                                .gradients = of(gradients),
                                                .state = {of(first), of(second)},
                                                .copy = Tensor(),
                                                .rule = usual,
                                                .gradient_scale = 1.0,
                                                .rounding = StochasticRounding{.key = 77}},
                                     .scales = {of(first_scales), of(second_scales)},
                                     .new_scales = {Tensor(), Tensor()},
                                     .first_block = 0}});
          });
  }
}

// Without gradient and first moment the second moment and the parameter are products, rounded once on any processor.
BOOST_AUTO_TEST_CASE(rounding_at_random_has_the_bits_of_the_cpu) {
  for (const Layout layout : flat_layouts) {
    for (const DType moment_dtype : compute_dtypes) {
      compare_step(usual, DType::bf16, moment_dtype, false, 2001, layout, rectangle, true);
    }
    compare_step(usual, DType::float32, DType::bf16, true, 2001, layout, rectangle, true);
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
