// SPDX-License-Identifier: Apache-2.0
// Steps of Adafactor against float64, in parts and in one.
#include "unit/ops/support.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(factored)

BOOST_AUTO_TEST_CASE(sums_are_those_of_float64_and_add_up_over_parts) {
  on_every_backend([](TestBackend& backend) {
    struct Shape {
      std::int64_t rows, columns;
    };
    for (const Shape shape : {Shape{1, 1}, {1, 3001}, {7, 5}, {300, 270}, {3001, 17}}) {
      const std::int64_t rows = shape.rows, columns = shape.columns;
      const Owned x = Owned(DType::float32, {rows, columns}).normal(1);
      const Owned by_row = Owned(DType::float64, {rows}).fill(2.0),
                  by_column = Owned(DType::float64, {columns}).fill(3.0);
      const double scale = 0.25;
      std::vector<double> expected_rows(static_cast<std::size_t>(rows), 2.0),
          expected_columns(static_cast<std::size_t>(columns), 3.0);
      for (std::int64_t r = 0; r < rows; ++r) {
        for (std::int64_t c = 0; c < columns; ++c) {
          const double square = std::pow(scale * get(*x, r, c), 2);
          expected_rows[static_cast<std::size_t>(r)] += square;
          expected_columns[static_cast<std::size_t>(c)] += square;
        }
      }
      const std::int64_t cut = rows / 2;
      for (const auto& [begin, count] : {std::pair{std::int64_t{0}, cut}, {cut, rows - cut}}) {
        backend->run(SumSquaresByDim{
            .x = x->rows(begin, count), .scale = scale, .rows = by_row->rows(begin, count), .columns = *by_column});
      }
      const auto check = [&](const Tensor& found, const std::vector<double>& expected) {
        double worst = 0.0;
        for (std::size_t i = 0; i < expected.size(); ++i) {
          worst = std::max(worst, std::abs(found.as<double>()[i] / expected[i] - 1));
        }
        BOOST_TEST(worst < 2e-7, backend.name() << ' ' << rows << " x " << columns << ": " << worst);
      };
      check(*by_row, expected_rows);
      check(*by_column, expected_columns);
      backend->run(SumSquaresByDim{.x = *x, .scale = scale, .rows = {}, .columns = *by_column});
      BOOST_TEST(by_row->as<double>()[0] < 1.000001 * expected_rows[0]);  // rows were not asked for
    }
  });
}

BOOST_AUTO_TEST_CASE(a_step_follows_from_factors_and_the_size_of_its_direction) {
  on_every_backend([](TestBackend& backend) {
    struct Shape {
      std::int64_t rows, columns;
    };
    for (const Shape shape : {Shape{1, 700}, {9, 4}, {130, 270}}) {
      const std::int64_t rows = shape.rows, columns = shape.columns;
      for (const double gradient_scale : {1.0, 1e-3}) {
        const Owned start = Owned(DType::float32, {rows, columns}).normal(1),
                    parameters(DType::float32, {rows, columns}),
                    gradients = Owned(DType::float32, {rows, columns}).normal(2), copy(DType::bf16, {rows, columns});
        const Owned row_moments = Owned(DType::float32, {rows}).fill(0.5),
                    column_moments = Owned(DType::float32, {columns}).fill(0.25), row_factors(DType::float32, {rows}),
                    column_factors(DType::float32, {columns});
        const Owned row_sums = Owned(DType::float64, {rows}).fill(0.0),
                    column_sums = Owned(DType::float64, {columns}).fill(0.0),
                    squares = Owned(DType::float64, {1}).fill(0.0);
        backend->run(Copy{*parameters, *start});
        const double beta2 = 0.4, epsilon = 1e-4, rate = 0.1, decay = 0.2, threshold = 0.9;
        backend->run(
            SumSquaresByDim{.x = *gradients, .scale = gradient_scale, .rows = *row_sums, .columns = *column_sums});
        backend->run(MomentFactors{.moment = *row_moments,
                                   .sums = *row_sums,
                                   .factors = *row_factors,
                                   .count = columns,
                                   .beta2 = beta2,
                                   .epsilon = epsilon,
                                   .by_mean = true});
        backend->run(MomentFactors{.moment = *column_moments,
                                   .sums = *column_sums,
                                   .factors = *column_factors,
                                   .count = rows,
                                   .beta2 = beta2,
                                   .epsilon = epsilon,
                                   .by_mean = false});
        const FactoredUpdate step{.parameters = *parameters,
                                  .gradients = *gradients,
                                  .row_factors = *row_factors,
                                  .column_factors = *column_factors,
                                  .squares = *squares,
                                  .copy = *copy,
                                  .learning_rate = rate,
                                  .weight_decay = decay,
                                  .clip_threshold = threshold,
                                  .num_elements = rows * columns,
                                  .gradient_scale = gradient_scale};
        backend->run(AddDirectionSquares{step});
        backend->run(UpdateFactored{step});

        std::vector<double> by_row(static_cast<std::size_t>(rows)), by_column(static_cast<std::size_t>(columns));
        const auto gradient = [&](std::size_t r, std::size_t c) {
          return gradient_scale * get(*gradients, static_cast<std::int64_t>(r), static_cast<std::int64_t>(c));
        };
        for (std::size_t r = 0; r < by_row.size(); ++r) {
          for (std::size_t c = 0; c < by_column.size(); ++c) {
            by_row[r] += (std::pow(gradient(r, c), 2) + epsilon) / static_cast<double>(columns);
            by_column[c] += (std::pow(gradient(r, c), 2) + epsilon) / static_cast<double>(rows);
          }
        }
        double mean = 0.0;
        for (double& moment : by_row) {
          moment = beta2 * 0.5 + (1 - beta2) * moment;
          mean += moment / static_cast<double>(rows);
        }
        for (double& moment : by_column) moment = beta2 * 0.25 + (1 - beta2) * moment;
        std::vector<double> direction;
        double sum = 0.0;
        for (std::size_t r = 0; r < by_row.size(); ++r) {
          for (std::size_t c = 0; c < by_column.size(); ++c) {
            direction.push_back(gradient(r, c) / std::sqrt(by_row[r] / mean * by_column[c]));
            sum += direction.back() * direction.back();
          }
        }
        const double size = std::sqrt(sum / static_cast<double>(rows * columns));
        BOOST_TEST((size > threshold) == (gradient_scale == 1.0));  // clipped, and not
        std::vector<double> expected = read(*start);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          expected[i] = expected[i] * (1 - rate * decay) - rate * direction[i] / std::max(1.0, size / threshold);
        }
        check_close(*row_moments, by_row, 1e-6, backend.name());
        check_close(*column_moments, by_column, 1e-6, backend.name());
        check_close(*squares, {sum}, 1e-5, backend.name());
        check_close(*parameters, expected, 1e-6, backend.name());
        check_close(*copy, expected, tolerance_of(DType::bf16), backend.name());
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(bf16_parameters_round_by_their_numbers_in_the_whole_matrix) {
  on_every_backend([](TestBackend& backend) {
    constexpr std::int64_t rows = 40, columns = 60, first_row = 7, first_column = 20, part_rows = 30, part_columns = 25;
    const Owned start = Owned(DType::bf16, {rows, columns}).normal(1), whole(DType::bf16, {rows, columns}),
                gradients = Owned(DType::float32, {rows, columns}).normal(2);
    const Owned row_factors = Owned(DType::float32, {rows}).uniform(3, 1, 4),
                column_factors = Owned(DType::float32, {columns}).uniform(4, 1, 4),
                squares = Owned(DType::float64, {1}).fill(1.0);
    const Owned part(DType::bf16, {part_rows, part_columns}), part_gradients(DType::float32, {part_rows, part_columns});
    backend->run(Copy{*whole, *start});
    backend->run(Copy{*part, start->rows(first_row, part_rows).columns(first_column, part_columns)});
    backend->run(Copy{*part_gradients, gradients->rows(first_row, part_rows).columns(first_column, part_columns)});
    FactoredUpdate step{.parameters = *whole,
                        .gradients = *gradients,
                        .row_factors = *row_factors,
                        .column_factors = *column_factors,
                        .squares = *squares,
                        .copy = {},
                        .learning_rate = 1e-3,
                        .weight_decay = 0.1,
                        .clip_threshold = 1.0,
                        .num_elements = rows * columns,
                        .rounding = {.key = 77, .row_stride = columns}};
    backend->run(UpdateFactored{step});
    step.parameters = *part;
    step.gradients = *part_gradients;
    step.row_factors = row_factors->rows(first_row, part_rows);
    step.column_factors = column_factors->rows(first_column, part_columns);
    step.rounding.first_index = first_row * columns + first_column;
    backend->run(UpdateFactored{step});
    std::int64_t num_different = 0, num_moved = 0;
    for (std::int64_t r = 0; r < part_rows; ++r) {
      for (std::int64_t c = 0; c < part_columns; ++c) {
        num_different += get(*part, r, c) == get(*whole, first_row + r, first_column + c) ? 0 : 1;
        num_moved += get(*part, r, c) == get(*start, first_row + r, first_column + c) ? 0 : 1;
      }
    }
    BOOST_TEST(num_different == 0, backend.name());
    BOOST_TEST(num_moved > 20, backend.name());  // steps are less than half of bf16's own: few round up
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
