// SPDX-License-Identifier: Apache-2.0
#include <bit>
#include <utility>

#include "unit/ops/support.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(optimizer)

BOOST_AUTO_TEST_CASE(adamw_follows_torch_over_several_steps) {
  on_every_backend([](TestBackend& backend) {
    for (const std::int64_t size : {1, 19, 40003}) {
      const Owned parameters = Owned(DType::float32, {size}).normal(1),
                  gradients = Owned(DType::float32, {size}).normal(2);
      const Owned exp_avg = Owned(DType::float32, {size}).fill(0.0),
                  exp_avg_sq = Owned(DType::float32, {size}).fill(0.0);
      const Owned copy(DType::bf16, {size});
      std::vector<double> p = read(*parameters), m(p.size()), v(p.size());
      const double lr = 1e-2, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8, decay = 0.1, scale = 0.25;
      for (int step = 1; step <= 5; ++step) {
        const double correction1 = 1.0 - std::pow(beta1, step), correction2 = 1.0 - std::pow(beta2, step);
        for (std::size_t i = 0; i < p.size(); ++i) {
          const double g = scale * get(*gradients, static_cast<std::int64_t>(i), 0);
          p[i] *= 1.0 - lr * decay;
          m[i] = beta1 * m[i] + (1.0 - beta1) * g;
          v[i] = beta2 * v[i] + (1.0 - beta2) * g * g;
          p[i] -= lr / correction1 * m[i] / (std::sqrt(v[i]) / std::sqrt(correction2) + epsilon);
        }
        backend->run(Update{.parameters = *parameters,
                            .gradients = *gradients,
                            .state = {*exp_avg, *exp_avg_sq},
                            .copy = step % 2 == 0 ? Tensor{} : *copy,
                            .rule = AdamW{lr, beta1, beta2, epsilon, decay, correction1, correction2},
                            .gradient_scale = scale});
      }
      check_close(*parameters, p, 1e-6, backend.name());
      check_close(*exp_avg, m, 1e-6, backend.name());
      check_close(*exp_avg_sq, v, 1e-6, backend.name());
      check_close(*copy, p, tolerance_of(DType::bf16), backend.name());
    }
  });
}

BOOST_AUTO_TEST_CASE(lion_and_sgd_follow_their_papers_over_several_steps) {
  on_every_backend([](TestBackend& backend) {
    const double lr = 1e-2, beta1 = 0.9, beta2 = 0.99, decay = 0.1, scale = 0.25;
    for (const std::int64_t size : {1, 19, 40003}) {
      const Owned start = Owned(DType::float32, {size}).normal(1), by_lion(DType::float32, {size}),
                  by_sgd(DType::float32, {size});
      const Owned exp_avg = Owned(DType::float32, {size}).fill(0.0), copy(DType::bf16, {size});
      backend->run(Copy{*by_lion, *start});
      backend->run(Copy{*by_sgd, *start});
      std::vector<double> lion = read(*start), sgd = lion, m(lion.size());
      for (int step = 1; step <= 5; ++step) {
        const Owned fresh = Owned(DType::float32, {size}).normal(10 + step);
        for (std::size_t i = 0; i < lion.size(); ++i) {
          const double g = scale * get(*fresh, static_cast<std::int64_t>(i), 0);
          const double direction = beta1 * m[i] + (1 - beta1) * g;
          lion[i] = lion[i] * (1 - lr * decay) - lr * (direction > 0 ? 1 : direction < 0 ? -1 : 0);
          m[i] = beta2 * m[i] + (1 - beta2) * g;
          sgd[i] -= lr * (g + decay * sgd[i]);
        }
        backend->run(Update{.parameters = *by_lion,
                            .gradients = *fresh,
                            .state = {*exp_avg, Tensor{}},
                            .copy = *copy,
                            .rule = Lion{lr, beta1, beta2, decay},
                            .gradient_scale = scale});
        backend->run(Update{.parameters = *by_sgd,
                            .gradients = *fresh,
                            .state = {},
                            .copy = {},
                            .rule = Sgd{lr, decay},
                            .gradient_scale = scale});
      }
      check_close(*by_lion, lion, 1e-6, backend.name());
      check_close(*exp_avg, m, 1e-6, backend.name());
      check_close(*copy, lion, tolerance_of(DType::bf16), backend.name());
      check_close(*by_sgd, sgd, 1e-6, backend.name());
    }
  });
}

BOOST_AUTO_TEST_CASE(momentum_leaves_a_direction_in_the_place_of_gradients) {
  on_every_backend([](TestBackend& backend) {
    const double momentum = 0.95, scale = 0.25;
    for (const std::int64_t size : {1, 19, 40003}) {
      for (const bool nesterov : {true, false}) {
        const Owned mean = Owned(DType::float32, {size}).fill(0.0);
        std::vector<double> m(static_cast<std::size_t>(size)), direction(m.size());
        for (int step = 1; step <= 3; ++step) {
          const Owned gradients = Owned(DType::float32, {size}).normal(10 + step);
          for (std::size_t i = 0; i < m.size(); ++i) {
            const double g = scale * get(*gradients, static_cast<std::int64_t>(i), 0);
            m[i] = momentum * m[i] + (1 - momentum) * g;
            direction[i] = nesterov ? momentum * m[i] + (1 - momentum) * g : m[i];
          }
          backend->run(Update{.parameters = *gradients,
                              .gradients = *gradients,
                              .state = {*mean, Tensor{}},
                              .copy = {},
                              .rule = Momentum{momentum, nesterov},
                              .gradient_scale = scale});
          check_close(*gradients, direction, 1e-6, backend.name());
        }
        check_close(*mean, m, 1e-6, backend.name());
      }
    }
  });
}

namespace {

/// State of n elements: parameters and moments of the given dtypes, and gradients.
struct State {
  State(std::int64_t n, DType parameter_dtype, DType moment_dtype)
      : parameters(Owned(parameter_dtype, {n}).normal(1)),
        gradients(Owned(DType::float32, {n}).normal(2)),
        exp_avg(Owned(moment_dtype, {n}).normal(3, 0.1)),
        exp_avg_sq(Owned(moment_dtype, {n}).fill(0.01)) {}

  /// Updates `count` elements from `begin` on.
  void step(TestBackend& backend, std::int64_t begin, std::int64_t count, const StochasticRounding& rounding) const {
    backend->run(Update{.parameters = parameters->rows(begin, count),
                        .gradients = gradients->rows(begin, count),
                        .state = {exp_avg->rows(begin, count), exp_avg_sq->rows(begin, count)},
                        .copy = {},
                        .rule = AdamW{1e-2, 0.9, 0.999, 1e-8, 0.1, 0.5, 0.4},
                        .rounding = rounding});
  }
  /// parameters, exp_avg and exp_avg_sq of element i.
  [[nodiscard]] std::vector<double> at(std::int64_t i) const {
    return {get(*parameters, i, 0), get(*exp_avg, i, 0), get(*exp_avg_sq, i, 0)};
  }

  Owned parameters, gradients, exp_avg, exp_avg_sq;
};

/// The numbers of bf16 at or below x and at or above it.
std::pair<double, double> neighbours(double x) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(x)) & 0xffff0000U;
  const double toward_zero = std::bit_cast<float>(bits);
  if (toward_zero == static_cast<double>(static_cast<float>(x))) return {toward_zero, toward_zero};
  const double away = std::bit_cast<float>(bits + 0x10000U);
  return std::minmax({toward_zero, away});
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_is_bf16_becomes_a_neighbour_of_the_float32_result) {
  on_every_backend([](TestBackend& backend) {
    constexpr std::int64_t n = 40003;
    for (const DType parameter_dtype : {DType::float32, DType::bf16}) {
      for (const DType moment_dtype : {DType::float32, DType::bf16}) {
        // The same numbers in float32 give what is rounded.
        const State rounded(n, parameter_dtype, moment_dtype), exact(n, DType::float32, DType::float32);
        for (const auto& [from, to] : {std::pair{*rounded.parameters, *exact.parameters},
                                       {*rounded.exp_avg, *exact.exp_avg},
                                       {*rounded.exp_avg_sq, *exact.exp_avg_sq}}) {
          backend->run(Copy{to, from});
        }
        rounded.step(backend, 0, n, {.key = 12345});
        exact.step(backend, 0, n, {});
        std::int64_t num_wrong = 0;
        for (std::int64_t i = 0; i < n; ++i) {
          const std::vector<double> found = rounded.at(i), expected = exact.at(i);
          for (std::size_t part = 0; part < 3; ++part) {
            const bool is_bf16 = (part == 0 ? parameter_dtype : moment_dtype) == DType::bf16;
            const auto [below, above] = neighbours(expected[part]);
            const bool is_right =
                is_bf16 ? found[part] == below || found[part] == above : std::abs(found[part] - expected[part]) <= 1e-6;
            num_wrong += is_right ? 0 : 1;
          }
        }
        BOOST_TEST(num_wrong == 0, backend.name());
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(rounding_at_random_is_right_on_average) {
  on_every_backend([](TestBackend& backend) {
    constexpr std::int64_t n = 1 << 18;
    constexpr double step_size = 1e-4;  // the first step of AdamW goes by the rate, against the gradient's sign
    const Owned parameters = Owned(DType::bf16, {n}).fill(-1.5), gradients = Owned(DType::float32, {n}).fill(1.0);
    const Owned exp_avg = Owned(DType::bf16, {n}).fill(0.0), exp_avg_sq = Owned(DType::bf16, {n}).fill(0.0);
    const double beta1 = 0.9, beta2 = 0.999;
    backend->run(Update{.parameters = *parameters,
                        .gradients = *gradients,
                        .state = {*exp_avg, *exp_avg_sq},
                        .copy = {},
                        .rule = AdamW{step_size, beta1, beta2, 1e-12, 0.0, 1 - beta1, 1 - beta2},
                        .rounding = {.key = 99, .first_index = 1000}});
    const auto check_mean = [&](const Tensor& x, double expected, const char* what) {
      double sum = 0.0, largest = -1e30, smallest = 1e30;
      for (const double value : read(x)) {
        sum += value;
        largest = std::max(largest, value);
        smallest = std::min(smallest, value);
      }
      const double gap = largest - smallest;  // one step of bf16
      BOOST_TEST(gap > 0.0, what << ", " << backend.name());
      // Five standard deviations of the mean of n numbers that are one of two.
      BOOST_TEST(std::abs(sum / n - expected) <= 5 * 0.5 * gap / std::sqrt(n) + 1e-7 * std::abs(expected),
                 what << ", " << backend.name() << ": " << sum / n << " for " << expected);
    };
    check_mean(*parameters, -1.5 - step_size, "parameters");
    check_mean(*exp_avg, 1 - beta1, "exp_avg");
    check_mean(*exp_avg_sq, 1 - beta2, "exp_avg_sq");
  });
}

BOOST_AUTO_TEST_CASE(numbers_that_bf16_holds_stay_as_they_are) {
  on_every_backend([](TestBackend& backend) {
    constexpr std::int64_t n = 5000;
    const Owned parameters = Owned(DType::bf16, {n}).normal(4), gradients = Owned(DType::float32, {n}).fill(0.0);
    const Owned exp_avg = Owned(DType::bf16, {n}).fill(0.0), exp_avg_sq = Owned(DType::bf16, {n}).fill(0.0);
    const std::vector<double> before = read(*parameters);
    for (std::uint64_t step = 1; step <= 10; ++step) {
      backend->run(Update{.parameters = *parameters,
                          .gradients = *gradients,
                          .state = {*exp_avg, *exp_avg_sq},
                          .copy = {},
                          .rule = AdamW{1e-2, 0.9, 0.999, 1e-8, 0.0, 0.5, 0.4},
                          .rounding = {.key = step}});
    }
    BOOST_TEST(read(*parameters) == before, boost::test_tools::per_element());
  });
}

BOOST_AUTO_TEST_CASE(an_element_rounds_alike_wherever_it_lies) {
  on_every_backend([](TestBackend& backend) {
    // A tensor of 37 rows of 53, whole, and its columns [20, 41) from row 5, column 7 of these on.
    constexpr std::int64_t rows = 37, columns = 53, first_column = 20, part_columns = 21;
    const State whole(rows * columns, DType::bf16, DType::bf16), part(rows * part_columns, DType::bf16, DType::bf16);
    const auto index_of = [&](std::int64_t i) { return i / part_columns * columns + first_column + i % part_columns; };
    for (std::int64_t i = 0; i < rows * part_columns; ++i) {
      for (const auto& [from, to] : {std::pair{*whole.parameters, *part.parameters},
                                     {*whole.gradients, *part.gradients},
                                     {*whole.exp_avg, *part.exp_avg},
                                     {*whole.exp_avg_sq, *part.exp_avg_sq}}) {
        set(to, i, 0, get(from, index_of(i), 0));
      }
    }
    const std::uint64_t key = 777;
    for (const auto& [begin, count] : {std::pair{0, 100}, {100, 1}, {101, 1860}}) {
      whole.step(backend, begin, count, {.key = key, .begin = begin});
    }
    const std::int64_t cut = 5 * part_columns + 7;
    for (const auto& [begin, count] :
         {std::pair<std::int64_t, std::int64_t>{0, cut}, {cut, rows * part_columns - cut}}) {
      part.step(backend, begin, count,
                {.key = key,
                 .first_index = first_column,
                 .num_columns = part_columns,
                 .row_stride = columns,
                 .begin = begin});
    }
    std::int64_t num_different = 0;
    for (std::int64_t i = 0; i < rows * part_columns; ++i) num_different += part.at(i) == whole.at(index_of(i)) ? 0 : 1;
    BOOST_TEST(num_different == 0, backend.name());

    // Another step or tensor draws other numbers.
    const State other(rows * columns, DType::bf16, DType::bf16);
    other.step(backend, 0, rows * columns, {.key = key + 2});
    std::int64_t num_equal = 0;
    for (std::int64_t i = 0; i < rows * columns; ++i) num_equal += other.at(i) == whole.at(i) ? 1 : 0;
    BOOST_TEST(num_equal < rows * columns / 2, backend.name());
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
