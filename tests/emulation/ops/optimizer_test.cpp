// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <boost/test/unit_test.hpp>
#include <string>

#include "emulation/ops/support.hpp"

namespace sft::ops::testing {

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
  const std::string what = names[rule.index()] + name_of(parameter_dtype) + ", moments " + name_of(moment_dtype) +
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
          ops.update({.parameters = of(parameters),
                      .gradients = of(gradients),
                      .state = {num_states > 0 ? of(first) : Tensor(), num_states > 1 ? of(second) : Tensor()},
                      .copy = has_copy ? of(copy) : Tensor(),
                      .rule = rule,
                      .gradient_scale = 0.7,
                      .rounding = rounding});
        });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(optimizer)

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
