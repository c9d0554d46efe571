// SPDX-License-Identifier: Apache-2.0
#include "unit/ops/naive.hpp"
#include "unit/ops/support.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(rms_norm)

constexpr float epsilon = 1e-5f;

BOOST_AUTO_TEST_CASE(forward_and_apply) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const auto& [rows, columns] : {std::pair{1, 8}, {5, 67}, {100, 512}}) {
      const Owned x = Owned(dtype, {rows, columns}).normal(1), weight = Owned(dtype, {columns}).normal(2);
      const Owned y(dtype, {rows, columns}), again(dtype, {rows, columns}), rstd(DType::float32, {rows});
      backend->run(RmsNormForward{*y, *rstd, *x, *weight, epsilon});
      backend->run(RmsNormApply{.y = *again, .x = *x, .rstd = *rstd, .weight = *weight});
      const naive::Norm expected = naive::rms_norm(read(*x), read(*weight), epsilon);
      check_close(*y, expected.y, tolerance_of(dtype), label);
      check_close(*rstd, expected.rstd, 1e-6, label);
      BOOST_TEST((read(*again) == read(*y)), label);
    }
  });
}

BOOST_AUTO_TEST_CASE(addition_before_the_norm_is_rounded_once_and_may_be_in_place) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const DType delta_dtype : {dtype, DType::float32}) {
      const std::int64_t rows = 70, columns = 250;
      const Owned x = Owned(dtype, {rows, columns}).normal(1), weight = Owned(dtype, {columns}).normal(2);
      const Owned delta = Owned(delta_dtype, {rows, columns}).normal(3);
      const Owned sum(dtype, {rows, columns}), y(dtype, {rows, columns}), rstd(DType::float32, {rows});
      const Owned exact_sum(dtype, {rows, columns});
      for (std::int64_t t = 0; t < rows; ++t) {
        for (std::int64_t c = 0; c < columns; ++c) set(*exact_sum, t, c, get(*x, t, c) + get(*delta, t, c));
      }
      backend->run(AddRmsNormForward{
          .sum = *sum, .y = *y, .rstd = *rstd, .x = *x, .delta = *delta, .weight = *weight, .epsilon = epsilon});
      check_close(*sum, read(*exact_sum), 0.0, label);
      const naive::Norm expected = naive::rms_norm(read(*sum), read(*weight), epsilon);
      check_close(*y, expected.y, tolerance_of(dtype), label);
      check_close(*rstd, expected.rstd, 1e-6, label);
      backend->run(AddRmsNormForward{
          .sum = *x, .y = *y, .rstd = *rstd, .x = *x, .delta = *delta, .weight = *weight, .epsilon = epsilon});
      BOOST_TEST((read(*x) == read(*sum)), label);
      if (delta_dtype != dtype) continue;
      const auto wanted = read(*y);
      backend->run(AddRmsNormForward{.sum = *exact_sum,
                                     .y = *delta,
                                     .rstd = *rstd,
                                     .x = *Owned(dtype, {rows, columns}).normal(1),
                                     .delta = *delta,
                                     .weight = *weight,
                                     .epsilon = epsilon});
      BOOST_TEST((read(*delta) == wanted), label);
    }
  });
}

BOOST_AUTO_TEST_CASE(backward_with_and_without_a_residual) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const DType dy_dtype : {dtype, DType::float32}) {
      for (const auto& [rows, columns] : {std::pair{1, 8}, {13, 67}, {300, 130}}) {
        const Owned x = Owned(dtype, {rows, columns}).normal(1), weight = Owned(dtype, {columns}).normal(2);
        const Owned dy = Owned(dy_dtype, {rows, columns}).normal(3), residual = Owned(dtype, {rows, columns}).normal(4);
        const Owned dx(dtype, {rows, columns}), dweight = Owned(DType::float32, {columns}).normal(5);
        const naive::Norm norm = naive::rms_norm(read(*x), read(*weight), epsilon);
        const Owned rstd(DType::float32, {rows});
        for (std::int64_t t = 0; t < rows; ++t) set(*rstd, t, 0, norm.rstd[t]);
        naive::NormGradient expected = naive::rms_norm_backward(read(*dy), read(*x), norm.rstd, read(*weight));
        const std::vector<double> before = read(*dweight), shortcut = read(*residual);
        for (std::size_t c = 0; c < before.size(); ++c) expected.dweight[c] += before[c];

        backend->run(
            RmsNormBackward{.dx = *dx, .dweight = *dweight, .dy = *dy, .x = *x, .rstd = *rstd, .weight = *weight});
        check_close(*dx, expected.dx, 2 * tolerance_of(dtype), label);
        check_close(*dweight, expected.dweight, 1e-5, label);

        for (std::size_t i = 0; i < shortcut.size(); ++i) expected.dx[i] += shortcut[i];
        backend->run(RmsNormBackward{.dx = *residual,
                                     .dweight = *dweight,
                                     .dy = *dy,
                                     .x = *x,
                                     .rstd = *rstd,
                                     .weight = *weight,
                                     .dresidual = *residual});
        check_close(*residual, expected.dx, 2 * tolerance_of(dtype), label);

        backend->run(RmsNormBackward{.dx = *x, .dweight = {}, .dy = *dy, .x = *x, .rstd = *rstd, .weight = *weight});
        BOOST_TEST((read(*x) == read(*dx)), label);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(weights_may_have_an_offset) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    const std::int64_t rows = 30, columns = 67;
    const Owned x = Owned(dtype, {rows, columns}).normal(1), dy = Owned(dtype, {rows, columns}).normal(3);
    const Owned y(dtype, {rows, columns}), rstd(DType::float32, {rows}), dx(dtype, {rows, columns});
    for (const DType weight_dtype : {dtype, DType::float32}) {
      const Owned stored = Owned(weight_dtype, {columns}).normal(2),
                  dweight = Owned(DType::float32, {columns}).fill(0.0);
      std::vector<double> weight = read(*stored);
      for (double& w : weight) w += 1.0;
      const naive::Norm expected = naive::rms_norm(read(*x), weight, epsilon);
      backend->run(RmsNormForward{*y, *rstd, *x, {*stored, 1.0F}, epsilon});
      check_close(*y, expected.y, tolerance_of(dtype), label);
      backend->run(RmsNormBackward{
          .dx = *dx, .dweight = *dweight, .dy = *dy, .x = *x, .rstd = *rstd, .weight = {*stored, 1.0F}});
      const naive::NormGradient gradient = naive::rms_norm_backward(read(*dy), read(*x), expected.rstd, weight);
      check_close(*dx, gradient.dx, 2 * tolerance_of(dtype), label);
      check_close(*dweight, gradient.dweight, 1e-5, label);
    }
  });
}

// The first columns on one rank, the others on two, each with a part of their gradient.
BOOST_AUTO_TEST_CASE(rows_may_lie_on_several_ranks) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    const std::int64_t rows = 40, first = 96, second = 96, columns = first + second, all_columns = first + 2 * second;
    const Owned x = Owned(dtype, {rows, columns}).normal(1), weight = Owned(dtype, {columns}).normal(2);
    const Owned dy = Owned(dtype, {rows, columns + 5}).normal(3), y(dtype, {rows, columns});
    struct Rank {
      std::int64_t begin, count;
      double share;  ///< of the gradient
      Owned squares, dots, rstd, dweight, weight, part;
    };
    std::vector<Rank> ranks;
    // The mean is over all columns: those that two ranks have count twice, in the sum and in their number.
    for (std::int64_t r = 0; r < 3; ++r) {
      const std::int64_t begin = r == 0 ? 0 : first, count = r == 0 ? first : second;
      ranks.push_back({begin, count,
                       r == 0   ? 1.0
                       : r == 1 ? 0.25
                                : 0.75,
                       Owned(DType::float32, {rows}), Owned(DType::float32, {rows}), Owned(DType::float32, {rows}),
                       Owned(DType::float32, {count}).fill(0.0), Owned(dtype, {count}), Owned(dtype, {rows, count})});
      const Rank& rank = ranks.back();
      for (std::int64_t c = 0; c < count; ++c) set(*rank.weight, 0, c, get(*weight, 0, begin + c));
      backend->run(SplitNormSquares{*rank.squares, x->columns(begin, count)});
    }
    const auto summed = [&](const auto& member) {
      const Owned sum = Owned(DType::float32, {rows}).fill(0.0);
      for (const Rank& rank : ranks) backend->run(Add{*sum, *(rank.*member)});
      return read(*sum);
    };
    const std::vector<double> squares = summed(&Rank::squares);
    const std::vector<double> xs = read(*x), ws = read(*weight), dys = read(dy->columns(0, columns));
    std::vector<double> wide_x, wide_w, wide_dy;
    for (std::int64_t t = 0; t < rows; ++t) {
      for (std::int64_t c = 0; c < all_columns; ++c) {
        const std::int64_t from = c < columns ? c : c - second;
        wide_x.push_back(xs[t * columns + from]);
        wide_dy.push_back(dys[t * columns + from] * (c < first ? 1.0 : c < columns ? 0.25 : 0.75));
        if (t == 0) wide_w.push_back(ws[from]);
      }
    }
    const naive::Norm expected = naive::rms_norm(wide_x, wide_w, epsilon);
    for (Rank& rank : ranks) {
      for (std::int64_t t = 0; t < rows; ++t) set(*rank.squares, t, 0, squares[t]);
      backend->run(SplitNormForward{.y = y->columns(rank.begin, rank.count),
                                    .rstd = *rank.rstd,
                                    .x = x->columns(rank.begin, rank.count),
                                    .squares = *rank.squares,
                                    .weight = *rank.weight,
                                    .all_columns = all_columns,
                                    .epsilon = epsilon});
      check_close(*rank.rstd, expected.rstd, 1e-6, label);
      for (std::int64_t t = 0; t < rows; ++t) {
        for (std::int64_t c = 0; c < rank.count; ++c) set(*rank.part, t, c, rank.share * get(*dy, t, rank.begin + c));
      }
      backend->run(SplitNormDots{.dots = *rank.dots,
                                 .dweight = *rank.dweight,
                                 .dy = *rank.part,
                                 .x = x->columns(rank.begin, rank.count),
                                 .rstd = *rank.rstd,
                                 .weight = *rank.weight});
    }
    const std::vector<double> narrow_y = read(*y);
    for (std::int64_t t = 0; t < rows; ++t) {
      for (std::int64_t c = 0; c < columns; ++c) {
        BOOST_TEST(std::abs(narrow_y[t * columns + c] - expected.y[t * all_columns + c]) < 8 * tolerance_of(dtype),
                   label);
      }
    }
    const std::vector<double> dots = summed(&Rank::dots);
    const naive::NormGradient gradient = naive::rms_norm_backward(wide_dy, wide_x, expected.rstd, wide_w);
    for (Rank& rank : ranks) {
      for (std::int64_t t = 0; t < rows; ++t) set(*rank.dots, t, 0, dots[t]);
      backend->run(SplitNormBackward{.dx = *rank.part,
                                     .dy = *rank.part,
                                     .x = x->columns(rank.begin, rank.count),
                                     .rstd = *rank.rstd,
                                     .dots = *rank.dots,
                                     .weight = *rank.weight,
                                     .all_columns = all_columns});
      const std::int64_t wide_begin = &rank == &ranks[2] ? columns : rank.begin;
      std::vector<double> dx, dweight;
      for (std::int64_t t = 0; t < rows; ++t) {
        for (std::int64_t c = 0; c < rank.count; ++c) dx.push_back(gradient.dx[t * all_columns + wide_begin + c]);
      }
      for (std::int64_t c = 0; c < rank.count; ++c) dweight.push_back(gradient.dweight[wide_begin + c]);
      check_close(*rank.part, dx, 4 * tolerance_of(dtype), label);
      check_close(*rank.dweight, dweight, dtype == DType::bf16 ? 1e-2 : 1e-5, label);
    }
  });
}

BOOST_AUTO_TEST_CASE(weight_gradients_do_not_depend_on_the_number_of_threads) {
  const std::int64_t rows = 500, columns = 96;
  const Owned x = Owned(DType::float32, {rows, columns}).normal(1),
              dy = Owned(DType::float32, {rows, columns}).normal(2);
  const Owned weight = Owned(DType::float32, {columns}).normal(3), rstd = Owned(DType::float32, {rows}).fill(1.0);
  const Owned dx(DType::float32, {rows, columns});
  std::vector<double> results[2];
  for (const int num_threads : {1, 4}) {
    omp_set_num_threads(num_threads);
    TestBackend backend(cpu::best_isa());
    const Owned dweight = Owned(DType::float32, {columns}).fill(0.0);
    backend->run(RmsNormBackward{.dx = *dx, .dweight = *dweight, .dy = *dy, .x = *x, .rstd = *rstd, .weight = *weight});
    results[num_threads == 1 ? 0 : 1] = read(*dweight);
  }
  BOOST_TEST((results[0] == results[1]));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
