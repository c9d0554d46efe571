// SPDX-License-Identifier: Apache-2.0
// Tokens in the order of their experts, grouped products and gates of experts, against float64.
#include "unit/ops/expert_reference.hpp"
#include "unit/ops/support.hpp"

namespace sft::ops::testing {

namespace {

enum class Spread { even, without_some, all_to_one };

struct RowCase {
  std::int64_t num_tokens, num_experts, num_choices, alignment;
  Spread spread = Spread::even;
};

const std::vector<RowCase> row_cases = {
    {0, 4, 2, 1},
    {0, 4, 2, 8},
    {1, 4, 1, 1},
    {1, 4, 4, 8},
    {37, 4, 4, 1},
    {37, 5, 2, 1, Spread::without_some},
    {50, 7, 3, 8},
    {29, 3, 1, 1, Spread::all_to_one},
    {29, 3, 1, 16, Spread::all_to_one},
    {150, 40, 6, 4},
};

/// Experts of each token, none twice; expert 1 has none without_some, all others none with all_to_one.
Owned experts_of(const RowCase& one) {
  Owned experts(DType::int32, {one.num_tokens, one.num_choices});
  std::mt19937 generator(7);
  for (std::int64_t t = 0; t < one.num_tokens; ++t) {
    std::vector<std::int64_t> order(static_cast<std::size_t>(one.num_experts));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), generator);
    if (one.spread == Spread::without_some) std::erase(order, 1);
    if (one.spread == Spread::all_to_one) order.front() = 1;
    for (std::int64_t j = 0; j < one.num_choices; ++j) {
      set(*experts, t, j, static_cast<double>(order[static_cast<std::size_t>(j)]));
    }
  }
  return experts;
}

/// A laid out batch.
struct RowOrder {
  Owned experts, counts, offsets, choices, rows;
  std::int64_t num_rows;

  RowOrder(TestBackend& backend, const RowCase& one)
      : experts(experts_of(one)),
        counts(DType::int32, {one.num_experts}),
        offsets(DType::int32, {one.num_experts + 1}),
        choices(DType::int32, {rows_of(one)}),
        rows(DType::int32, {one.num_tokens, one.num_choices}),
        num_rows(rows_of(one)) {
    backend->run(ExpertOrder{.experts = *experts,
                             .counts = *counts,
                             .offsets = *offsets,
                             .choices = *choices,
                             .rows = *rows,
                             .alignment = one.alignment});
  }
  static std::int64_t rows_of(const RowCase& one) {
    return one.num_tokens * one.num_choices + one.num_experts * (one.alignment - 1) + (one.alignment > 4 ? 3 : 0);
  }
  [[nodiscard]] ExpertOffsets span() const {
    return {offsets->as<std::int32_t>(), static_cast<std::size_t>(offsets->shape[0])};
  }
};

std::size_t place_of(std::int64_t row, std::int64_t column, std::int64_t columns) {
  return static_cast<std::size_t>(row * columns + column);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(experts)

BOOST_AUTO_TEST_CASE(tokens_lie_expert_by_expert_in_their_order) {
  on_every_backend([](TestBackend& backend) {
    for (const RowCase& one : row_cases) {
      const RowOrder order(backend, one);
      Values counts, offsets = {0}, choices, rows(order.experts->shape[0] * one.num_choices);
      const Values experts = read(*order.experts);
      for (std::int64_t e = 0; e < one.num_experts; ++e) {
        std::int64_t count = 0;
        for (std::size_t i = 0; i < experts.size(); ++i) {
          if (experts[i] != static_cast<double>(e)) continue;
          rows[i] = static_cast<double>(choices.size());
          choices.push_back(static_cast<double>(i));
          ++count;
        }
        counts.push_back(static_cast<double>(count));
        while (std::ssize(choices) % one.alignment != 0) choices.push_back(-1);
        offsets.push_back(static_cast<double>(choices.size()));
      }
      choices.resize(static_cast<std::size_t>(order.num_rows), -1);
      BOOST_TEST((read(*order.counts) == counts), backend.name());
      BOOST_TEST((read(*order.offsets) == offsets), backend.name());
      BOOST_TEST((read(*order.choices) == choices), backend.name());
      BOOST_TEST((read(*order.rows) == rows), backend.name());
    }
  });
}

BOOST_AUTO_TEST_CASE(rows_are_gathered_and_combined) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const RowCase& one : row_cases) {
      const RowOrder order(backend, one);
      for (const std::int64_t columns : {std::int64_t{1}, std::int64_t{24}, std::int64_t{531}}) {
        const Owned tokens = Owned(dtype, {one.num_tokens, columns}).normal(1),
                    weights = Owned(DType::float32, {one.num_tokens, one.num_choices}).normal(2),
                    gathered(dtype, {order.num_rows, columns}), combined(dtype, {one.num_tokens, columns}),
                    dweights(DType::float32, {one.num_tokens, one.num_choices});
        const Owned sums = Owned(DType::float32, {one.num_tokens, columns}).fill(2.0),
                    y = Owned(dtype, {order.num_rows, columns}).normal(3);
        for (const bool is_weighted : {false, true}) {
          const Tensor weight = is_weighted ? *weights : Tensor();
          const auto weight_of = [&](std::int64_t t, std::int64_t j) {
            return is_weighted ? get(*weights, t, j) : 1.0;
          };
          backend->run(GatherTokens{.out = *gathered,
                                    .in = *tokens,
                                    .choices = *order.choices,
                                    .weights = weight,
                                    .num_choices = one.num_choices});
          backend->run(CombineRows{.out = *combined, .in = *y, .rows = *order.rows, .weights = weight});
          backend->run(
              CombineRows{.out = *sums, .in = *y, .rows = *order.rows, .weights = weight, .accumulate = is_weighted});
          Values expected_rows(static_cast<std::size_t>(order.num_rows * columns)), expected_sums;
          for (std::int64_t t = 0; t < one.num_tokens; ++t) {
            for (std::int64_t c = 0; c < columns; ++c) {
              double sum = 0.0;
              for (std::int64_t j = 0; j < one.num_choices; ++j) {
                const auto row = static_cast<std::int64_t>(get(*order.rows, t, j));
                expected_rows[place_of(row, c, columns)] = weight_of(t, j) * get(*tokens, t, c);
                sum += weight_of(t, j) * get(*y, row, c);
              }
              expected_sums.push_back(sum);
            }
          }
          check_close(*gathered, expected_rows, tolerance_of(dtype), label);
          check_close(*combined, expected_sums, tolerance_of(dtype), label);
          if (is_weighted) {
            backend->run(CombineRows{.out = *combined, .in = *y, .rows = *order.rows, .weights = {}});
            const Values unweighted = read(*combined);
            for (std::size_t i = 0; i < expected_sums.size(); ++i) expected_sums[i] += unweighted[i];
            check_close(*sums, expected_sums, dtype == DType::bf16 ? 0.02 : 6e-6, label);
          }
        }
        backend->run(CombineWeightsBackward{.dweights = *dweights, .dout = *tokens, .in = *y, .rows = *order.rows});
        Values expected;
        for (std::int64_t t = 0; t < one.num_tokens; ++t) {
          for (std::int64_t j = 0; j < one.num_choices; ++j) {
            double sum = 0.0;
            for (std::int64_t c = 0; c < columns; ++c) {
              sum += get(*tokens, t, c) * get(*y, static_cast<std::int64_t>(get(*order.rows, t, j)), c);
            }
            expected.push_back(sum);
          }
        }
        check_close(*dweights, expected, 1e-6, label);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(grouped_products_are_those_of_each_expert) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const RowCase& one : row_cases) {
      const RowOrder order(backend, one);
      constexpr std::int64_t depth = 40, columns = 24;
      const std::int64_t num_experts = one.num_experts, num_rows = order.num_rows;
      const auto offset = [&](std::int64_t e) { return std::int64_t{order.span()[static_cast<std::size_t>(e)]}; };
      for (const bool is_plain : {true, false}) {
        const Owned a = Owned(dtype, {num_rows, depth}).normal(1),
                    b = is_plain ? Owned(dtype, {num_experts, depth, columns}).normal(2)
                                 : Owned(dtype, {num_experts, columns, depth}).normal(2),
                    bias = Owned(dtype, {num_experts, columns}).normal(3),
                    c = Owned(is_plain ? dtype : DType::float32, {num_rows, columns}).fill(0.5);
        const std::int64_t b_row = b->shape[2];
        backend->run(GroupedMatmul{.a = *a,
                                   .b = *b,
                                   .c = *c,
                                   .offsets = order.span(),
                                   .transpose_b = !is_plain,
                                   .accumulate = !is_plain,
                                   .bias = is_plain ? ConstTensor() : ConstTensor(*bias)});
        Values expected(static_cast<std::size_t>(num_rows * columns), 0.5);
        for (std::int64_t e = 0; e < num_experts; ++e) {
          for (std::int64_t r = offset(e); r < offset(e + 1); ++r) {
            for (std::int64_t n = 0; n < columns; ++n) {
              double sum = is_plain ? 0.0 : 0.5 + get(*bias, e, n);
              for (std::int64_t k = 0; k < depth; ++k) {
                sum += get(*a, r, k) * get(*b, e, is_plain ? k * b_row + n : n * b_row + k);
              }
              expected[place_of(r, n, columns)] = sum;
            }
          }
        }
        check_close(*c, expected, tolerance_of(is_plain ? dtype : DType::float32), label);
      }
      const Owned x = Owned(dtype, {num_rows, columns}).normal(4), y = Owned(dtype, {num_rows, depth}).normal(5),
                  dweight = Owned(DType::float32, {num_experts, columns, depth}).fill(1.5),
                  dbias = Owned(DType::float32, {num_experts, columns}).fill(-1.0);
      backend->run(GroupedWeightGradient{.dweight = *dweight, .x = *x, .y = *y, .offsets = order.span()});
      backend->run(GroupedBiasGradient{.dbias = *dbias, .dy = *x, .offsets = order.span()});
      Values expected(static_cast<std::size_t>(num_experts * columns * depth), 1.5),
          expected_bias(static_cast<std::size_t>(num_experts * columns), -1.0);
      for (std::int64_t e = 0; e < num_experts; ++e) {
        for (std::int64_t r = offset(e); r < offset(e + 1); ++r) {
          for (std::int64_t n = 0; n < columns; ++n) {
            expected_bias[place_of(e, n, columns)] += get(*x, r, n);
            for (std::int64_t k = 0; k < depth; ++k) {
              expected[place_of(e * columns + n, k, depth)] += get(*x, r, n) * get(*y, r, k);
            }
          }
        }
      }
      check_close(*dweight, expected, tolerance_of(DType::float32), label);
      check_close(*dbias, expected_bias, tolerance_of(DType::float32), label);
    }
  });
}

/// Large enough for oneDNN, and so many that threads take whole ones.
BOOST_AUTO_TEST_CASE(products_side_by_side_are_those_one_by_one) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    constexpr std::int64_t num_experts = 24, columns = 192, depth = 256, rows_each = 52, num_rows = 24 * rows_each;
    std::vector<std::int32_t> offsets;
    for (std::int32_t e = 0; e <= num_experts; ++e)
      offsets.push_back(e * static_cast<std::int32_t>(rows_each) - (e % 3 == 1 ? 5 : 0));
    const Owned a = Owned(dtype, {num_rows, depth}).normal(1),
                b = Owned(dtype, {num_experts, columns, depth}).normal(2), c(dtype, {num_rows, columns}),
                expected(dtype, {num_rows, columns});
    backend->run(GroupedMatmul{.a = *a, .b = *b, .c = *c, .offsets = offsets, .transpose_b = true});
    for (std::int64_t e = 0; e < num_experts; ++e) {
      const std::int64_t begin = offsets[static_cast<std::size_t>(e)],
                         count = offsets[static_cast<std::size_t>(e) + 1] - begin;
      backend->run(Matmul{.a = a->rows(begin, count),
                          .b = b->rows(e, 1).view({columns, depth}),
                          .c = expected->rows(begin, count),
                          .transpose_b = true});
    }
    check_close(*c, read(*expected), tolerance_of(dtype), label);
  });
}

BOOST_AUTO_TEST_CASE(gates_and_their_gradients) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const GateRule rule : {GateRule{.gate = Gate::gelu_tanh},
                                {.gate = Gate::gelu_tanh, .interleaved = true},
                                {.gate = Gate::clamped_swish},
                                {.gate = Gate::clamped_swish, .interleaved = true}}) {
      for (const auto& [rows, columns] : {std::pair{1, 3}, {7, 67}, {60, 352}}) {
        const Owned gate_up = Owned(dtype, {rows, 2 * columns}).normal(1, 5.0),
                    dact = Owned(dtype, {rows, columns}).normal(2), act(dtype, {rows, columns}),
                    again(dtype, {rows, columns}), dgate_up(dtype, {rows, 2 * columns});
        set(*gate_up, 0, 0, -200.0);
        set(*gate_up, 0, 1, 200.0);
        const auto value = [&](const Values& x) {
          double g = x[0], u = x[1];
          if (rule.gate == Gate::gelu_tanh) {
            return 0.5 * g * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (g + 0.044715 * g * g * g))) * u;
          }
          g = std::min(g, 7.0);
          u = std::clamp(u, -7.0, 7.0);
          return (u + 1) * g * sigmoid(static_cast<double>(1.702F) * g);
        };
        Values expected, gradient(static_cast<std::size_t>(rows * 2 * columns));
        for (int t = 0; t < rows; ++t) {
          for (int c = 0; c < columns; ++c) {
            const int g = rule.interleaved ? 2 * c : c, u = rule.interleaved ? 2 * c + 1 : c + columns;
            const Values x = {get(*gate_up, t, g), get(*gate_up, t, u)};
            expected.push_back(value(x));
            // At a limit the gradient is that from beyond it.
            Values beyond = x;
            for (double& number : beyond) number *= std::abs(number) == 7.0 ? 1.0 + 1e-5 : 1.0;
            gradient[place_of(t, g, 2 * columns)] = get(*dact, t, c) * slope(beyond, 0, value);
            gradient[place_of(t, u, 2 * columns)] = get(*dact, t, c) * slope(beyond, 1, value);
          }
        }
        backend->run(GatedForward{.act = *act, .gate_up = *gate_up, .rule = rule});
        check_close(*act, expected, tolerance_of(dtype), label);
        backend->run(
            GatedBackward{.dgate_up = *dgate_up, .act = *again, .dact = *dact, .gate_up = *gate_up, .rule = rule});
        check_close(*again, expected, tolerance_of(dtype), label);
        check_close(*dgate_up, gradient, tolerance_of(dtype), label);
        backend->run(
            GatedBackward{.dgate_up = *gate_up, .act = *dact, .dact = *dact, .gate_up = *gate_up, .rule = rule});
        BOOST_TEST((read(*gate_up) == read(*dgate_up)), label);
        BOOST_TEST((read(*dact) == read(*act)), label);
      }
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
