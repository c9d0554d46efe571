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
      backend->rms_norm_forward(*y, *rstd, *x, *weight, epsilon);
      backend->rms_norm_apply({.y = *again, .x = *x, .rstd = *rstd, .weight = *weight});
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
      backend->add_rms_norm_forward(
          {.sum = *sum, .y = *y, .rstd = *rstd, .x = *x, .delta = *delta, .weight = *weight, .epsilon = epsilon});
      check_close(*sum, read(*exact_sum), 0.0, label);
      const naive::Norm expected = naive::rms_norm(read(*sum), read(*weight), epsilon);
      check_close(*y, expected.y, tolerance_of(dtype), label);
      check_close(*rstd, expected.rstd, 1e-6, label);
      backend->add_rms_norm_forward(
          {.sum = *x, .y = *y, .rstd = *rstd, .x = *x, .delta = *delta, .weight = *weight, .epsilon = epsilon});
      BOOST_TEST((read(*x) == read(*sum)), label);
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

        backend->rms_norm_backward(
            {.dx = *dx, .dweight = *dweight, .dy = *dy, .x = *x, .rstd = *rstd, .weight = *weight});
        check_close(*dx, expected.dx, 2 * tolerance_of(dtype), label);
        check_close(*dweight, expected.dweight, 1e-5, label);

        for (std::size_t i = 0; i < shortcut.size(); ++i) expected.dx[i] += shortcut[i];
        backend->rms_norm_backward({.dx = *residual,
                                    .dweight = *dweight,
                                    .dy = *dy,
                                    .x = *x,
                                    .rstd = *rstd,
                                    .weight = *weight,
                                    .dresidual = *residual});
        check_close(*residual, expected.dx, 2 * tolerance_of(dtype), label);
      }
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
    backend->rms_norm_backward({.dx = *dx, .dweight = *dweight, .dy = *dy, .x = *x, .rstd = *rstd, .weight = *weight});
    results[num_threads == 1 ? 0 : 1] = read(*dweight);
  }
  BOOST_TEST((results[0] == results[1]));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
