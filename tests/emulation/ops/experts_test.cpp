// SPDX-License-Identifier: Apache-2.0
// Routers, rows and products of experts, and their gates.
#include <boost/test/unit_test.hpp>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "emulation/ops/support.hpp"

namespace sft::ops::testing {

namespace {

struct RouterCase {
  std::int64_t num_tokens, num_experts, num_choices;
  RouterRule rule;
};

const std::vector<RouterCase> routers = with_large<RouterCase>(
    {{0, 8, 2, {}},
     {1, 1, 1, {.normalize = true}},
     {19, 8, 8, {.normalize = true}},
     {9, 128, 8, {.normalize = true, .scale = 0.5F}},
     {9, 60, 4, {}},
     {3, 1024, 32, {}},
     {9, 40, 3, {.score = RouterScore::sigmoid}},
     {9, 128, 8, {.score = RouterScore::sigmoid, .normalize = true, .scale = 2.5F}},
     {9, 64, 6, {.score = RouterScore::sigmoid, .normalize = true, .num_groups = 8, .chosen_groups = 3}},
     {9, 64, 4, {.score = RouterScore::sigmoid, .num_groups = 32, .chosen_groups = 2}}},
    {{4099, 128, 8, {.normalize = true}}, {4099, 256, 8, {.score = RouterScore::sigmoid}}});

std::string text_of(const RouterCase& one) {
  return std::to_string(one.num_tokens) + " tokens, " + std::to_string(one.num_choices) + " of " +
         std::to_string(one.num_experts) + ", groups " + std::to_string(one.rule.num_groups);
}

struct Case {
  std::int64_t num_tokens, num_experts, num_choices, alignment;
  bool all_to_one = false;

  [[nodiscard]] std::int64_t num_rows() const {
    return num_tokens * num_choices + num_experts * (alignment - 1) + (alignment > 1 ? 3 : 0);
  }
  [[nodiscard]] std::string text() const {
    return std::to_string(num_tokens) + " tokens, " + std::to_string(num_choices) + " of " +
           std::to_string(num_experts) + ", alignment " + std::to_string(alignment);
  }
  /// The expert of each choice.
  [[nodiscard]] std::vector<int> experts() const {
    std::mt19937 generator = random_of(7);
    std::vector<int> chosen, all(static_cast<std::size_t>(num_experts));
    std::iota(all.begin(), all.end(), 0);
    for (std::int64_t t = 0; t < num_tokens; ++t) {
      std::shuffle(all.begin(), all.end(), generator);
      if (all_to_one) all[0] = static_cast<int>(num_experts) - 2;
      chosen.insert(chosen.end(), all.begin(), all.begin() + static_cast<std::ptrdiff_t>(num_choices));
    }
    return chosen;
  }
  /// Where the rows of each expert begin, the rows of choices, and the choice in each row.
  struct Order {
    std::vector<std::int32_t> offsets = {0}, rows, choices;
  };
  [[nodiscard]] Order order() const {
    Order order;
    const std::vector<int> chosen = experts();
    order.rows.resize(chosen.size());
    for (int e = 0; e < num_experts; ++e) {
      for (std::size_t i = 0; i < chosen.size(); ++i) {
        if (chosen[i] != e) continue;
        order.rows[i] = static_cast<std::int32_t>(order.choices.size());
        order.choices.push_back(static_cast<std::int32_t>(i));
      }
      while (std::ssize(order.choices) % alignment != 0) order.choices.push_back(-1);
      order.offsets.push_back(static_cast<std::int32_t>(order.choices.size()));
    }
    order.choices.resize(static_cast<std::size_t>(num_rows()), -1);
    return order;
  }
};

const std::vector<Case> cases =
    with_large<Case>({{0, 4, 2, 1}, {0, 4, 2, 8}, {1, 4, 4, 8}, {37, 5, 2, 1}, {41, 3, 1, 16, true}, {300, 300, 8, 2}},
                     {{4099, 128, 8, 1}, {4099, 128, 8, 16}});

/// Numbers by row and column of a list.
template <class T>
auto from(const std::vector<T>& list, std::int64_t columns) {
  return [&list, columns](std::int64_t r, std::int64_t c) { return list[static_cast<std::size_t>(r * columns + c)]; };
}

}  // namespace

BOOST_AUTO_TEST_SUITE(experts)

BOOST_AUTO_TEST_CASE(router) {
  for (const RouterCase& one : routers) {
    const std::int64_t T = one.num_tokens, E = one.num_experts, k = one.num_choices;
    for (const bool has_ties : {false, true}) {
      for (const bool has_correction : {false, true}) {
        if (has_correction && (has_ties || one.rule.score == RouterScore::softmax)) continue;
        for (const Layout layout : flat_layouts) {
          Twin logits = has_ties ? Twin(DType::float32, {T, E}, layout).uniform(1, 0, 3)
                                 : Twin(DType::float32, {T, E}, layout).normal(1, 2.0),
               correction = Twin(DType::float32, {E}, layout).normal(2, 0.3),
               dweights = Twin(DType::float32, {T, k}, layout).normal(3), experts(DType::int32, {T, k}, layout),
               weights(DType::float32, {T, k}, layout), dlogits(DType::float32, {T, E}, layout);
          check("router of " + text_of(one),
                {in(logits), in(correction), in(dweights), out(experts), out(weights), out(dlogits)},
                [&](Backend& ops, auto of) {
                  ops.run(RouterForward{.logits = of(logits),
                                        .correction = has_correction ? of(correction) : Tensor(),
                                        .experts = of(experts),
                                        .weights = of(weights),
                                        .rule = one.rule});
                  ops.run(RouterBackward{.dlogits = of(dlogits),
                                         .logits = of(logits),
                                         .experts = of(experts),
                                         .dweights = of(dweights),
                                         .rule = one.rule});
                });
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(router_of_what_is_no_number) {
  const std::vector<double> values = {std::nan(""), -1.0, std::nan(""), 2.0, -std::numeric_limits<double>::infinity()};
  for (const RouterRule rule : {RouterRule{}, RouterRule{.num_groups = 5, .chosen_groups = 4}}) {
    Twin logits = Twin(DType::float32, {2, 40}).filled([&](auto r, auto c) {
      return r == 0 ? std::nan("") : values[static_cast<std::size_t>(c) % values.size()];
    }),
         experts(DType::int32, {2, 6}), weights(DType::float32, {2, 6});
    check("a router of what is no number", {in(logits), out(experts)}, [&](Backend& ops, auto of) {
      ops.run(RouterForward{
          .logits = of(logits), .correction = {}, .experts = of(experts), .weights = of(weights), .rule = rule});
    });
  }
}

BOOST_AUTO_TEST_CASE(router_sums) {
  for (const auto& [T, E] : with_large<std::pair<std::int64_t, std::int64_t>>(
           {{0, 8}, {1, 300}, {200, 5}, {70, 128}, {9, 1024}}, {{65537, 128}})) {
    Twin logits = Twin(DType::float32, {T, E}).normal(1, 2.0),
         expert_counts = Twin(DType::int32, {E}).uniform(2, 0, 50), counts = Twin(DType::float64, {E}).filled(3.0),
         probabilities = Twin(DType::float64, {E}).filled(2.0), dlogits = Twin(DType::float32, {T, E}).filled(0.25);
    const std::string what = std::to_string(T) + " x " + std::to_string(E);
    check("sums of a router, " + what,
          {in(logits), in(expert_counts), out(counts, {}), out(probabilities, {.of_largest = 1e-6})},
          [&](Backend& ops, auto of) {
            ops.run(RouterSums{.logits = of(logits),
                               .expert_counts = of(expert_counts),
                               .counts = of(counts),
                               .probabilities = of(probabilities)});
          });
    check("gradient of the sums, " + what, {in(logits), in(counts), out(dlogits)}, [&](Backend& ops, auto of) {
      ops.run(RouterSumsBackward{.dlogits = of(dlogits), .logits = of(logits), .counts = of(counts), .factor = 0.01});
    });
  }
}

BOOST_AUTO_TEST_CASE(order) {
  for (const Case& one : cases) {
    for (const Layout layout : flat_layouts) {
      const std::vector<int> chosen = one.experts();
      Twin experts =
               Twin(DType::int32, {one.num_tokens, one.num_choices}, layout).filled(from(chosen, one.num_choices)),
           counts(DType::int32, {one.num_experts}, layout), offsets(DType::int32, {one.num_experts + 1}, layout),
           choices(DType::int32, {one.num_rows()}, layout),
           rows(DType::int32, {one.num_tokens, one.num_choices}, layout);
      check("order of " + one.text(), {in(experts), out(counts, {}), out(offsets, {}), out(choices, {}), out(rows, {})},
            [&](Backend& ops, auto of) {
              ops.run(ExpertOrder{.experts = of(experts),
                                  .counts = of(counts),
                                  .offsets = of(offsets),
                                  .choices = of(choices),
                                  .rows = of(rows),
                                  .alignment = one.alignment});
            });
    }
  }
}

BOOST_AUTO_TEST_CASE(rows_of_tokens) {
  for (const Case& one : cases) {
    const Case::Order order = one.order();
    const std::int64_t T = one.num_tokens, k = one.num_choices, R = one.num_rows();
    for (const DType dtype : compute_dtypes) {
      for (const std::int64_t columns : with_large<std::int64_t>({1, 13, 64}, {2048})) {
        for (const Layout layout : flat_layouts) {
          for (const bool is_weighted : {false, true}) {
            Twin choices = Twin(DType::int32, {R}).filled(from(order.choices, 1)),
                 rows = Twin(DType::int32, {T, k}).filled(from(order.rows, k)),
                 weights = Twin(DType::float32, {T, k}).normal(1), tokens = Twin(dtype, {T, columns}, layout).normal(2),
                 y = Twin(dtype, {R, columns}, layout).normal(3), gathered(dtype, {R, columns}, layout),
                 combined(dtype, {T, columns}, layout), sums = Twin(DType::float32, {T, columns}, layout).filled(2.0),
                 dweights(DType::float32, {T, k});
            check("rows of " + one.text() + ", " + testing::text_of(dtype) + " x " + std::to_string(columns),
                  {in(choices), in(rows), in(weights), in(tokens), in(y), out(gathered), out(combined), out(sums),
                   out(dweights)},
                  [&](Backend& ops, auto of) {
                    const Tensor weight = is_weighted ? of(weights) : Tensor();
                    ops.run(GatherTokens{.out = of(gathered),
                                         .in = of(tokens),
                                         .choices = of(choices),
                                         .weights = weight,
                                         .num_choices = k});
                    ops.run(CombineRows{.out = of(combined), .in = of(y), .rows = of(rows), .weights = weight});
                    ops.run(CombineRows{
                        .out = of(sums), .in = of(y), .rows = of(rows), .weights = weight, .accumulate = is_weighted});
                    ops.run(CombineWeightsBackward{
                        .dweights = of(dweights), .dout = of(tokens), .in = of(y), .rows = of(rows)});
                  });
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(products) {
  for (const Case& one : cases) {
    if (one.num_experts > 200) continue;
    const Case::Order order = one.order();
    const std::int64_t R = one.num_rows(), E = one.num_experts;
    for (const auto& [N, K] : with_large<std::pair<std::int64_t, std::int64_t>>({{24, 40}, {7, 5}}, {{1536, 2048}})) {
      for (const DType dtype : compute_dtypes) {
        for (const bool is_plain : {false, true}) {
          for (const bool has_bias : {false, true}) {
            const DType c_dtype = is_plain ? dtype : DType::float32;
            Twin a = Twin(dtype, {R, K}).normal(1),
                 b = is_plain ? Twin(dtype, {E, K, N}).normal(2) : Twin(dtype, {E, N, K}).normal(2),
                 bias = Twin(dtype, {E, N}).normal(3), c = Twin(c_dtype, {R, N}).filled(0.5),
                 x = Twin(dtype, {R, N}).normal(4), dweight = Twin(DType::float32, {E, N, K}).filled(1.0),
                 dbias = Twin(DType::float32, {E, N}).filled(1.0);
            check("products of " + one.text() + ", " + testing::text_of(dtype),
                  {in(a), in(b), in(bias), in(x), out(c, tolerance_of_products(dtype, c_dtype, K)),
                   out(dweight, tolerance_of_products(dtype, DType::float32, R)), out(dbias)},
                  [&](Backend& ops, auto of) {
                    ops.run(GroupedMatmul{.a = of(a),
                                          .b = of(b),
                                          .c = of(c),
                                          .offsets = order.offsets,
                                          .transpose_b = !is_plain,
                                          .accumulate = !is_plain,
                                          .bias = has_bias ? of(bias) : Tensor()});
                    ops.run(GroupedWeightGradient{
                        .dweight = of(dweight), .x = of(x), .y = of(a), .offsets = order.offsets});
                    ops.run(GroupedBiasGradient{.dbias = of(dbias), .dy = of(x), .offsets = order.offsets});
                  });
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(gates) {
  for (const GateRule rule : {GateRule{.gate = Gate::gelu_tanh},
                              {.gate = Gate::gelu_tanh, .interleaved = true},
                              {.gate = Gate::gelu_tanh, .alone = true},
                              {.gate = Gate::clamped_swish},
                              {.gate = Gate::clamped_swish, .interleaved = true},
                              {.gate = Gate::relu2},
                              {.gate = Gate::relu2, .alone = true}}) {
    for (const DType dtype : compute_dtypes) {
      for (const Layout layout : flat_layouts) {
        for (const auto& [T, F] : with_large<std::pair<std::int64_t, std::int64_t>>(
                 {{0, 8}, {1, 1}, {3, 13}, {5, 64}, {2, 2056}}, {{301, 4864}})) {
          const std::string what = "gate " + testing::text_of(dtype) + " " + std::to_string(T) + " x " +
                                   std::to_string(F) +
                                   (rule.interleaved ? ", in turn"
                                    : rule.alone     ? ", alone"
                                                     : "");
          const std::int64_t columns = rule.alone ? F : 2 * F;
          Twin gate_up = Twin(dtype, {T, columns}, layout).normal(1, 5.0), act(dtype, {T, F}, layout),
               dact = Twin(dtype, {T, F}, layout).normal(2), dgate_up(dtype, {T, columns}), again(dtype, {T, F});
          check(what, {in(gate_up), in(dact), out(act), out(again), out(dgate_up)}, [&](Backend& ops, auto of) {
            ops.run(GatedForward{.act = of(act), .gate_up = of(gate_up), .rule = rule});
            ops.run(GatedBackward{
                .dgate_up = of(dgate_up), .act = of(again), .dact = of(dact), .gate_up = of(gate_up), .rule = rule});
          });
          check(what + " in place", {out(gate_up), out(dact)}, [&](Backend& ops, auto of) {
            ops.run(GatedBackward{
                .dgate_up = of(gate_up), .act = of(dact), .dact = of(dact), .gate_up = of(gate_up), .rule = rule});
          });
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
