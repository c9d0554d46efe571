// SPDX-License-Identifier: Apache-2.0
#include "unit/ops/support.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(swiglu)

BOOST_AUTO_TEST_CASE(forward_and_backward_also_in_place) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const auto& [rows, columns] : {std::pair{1, 3}, {7, 67}, {60, 352}}) {
      const Owned gate_up = Owned(dtype, {rows, 2 * columns}).normal(1, 3.0),
                  dact = Owned(dtype, {rows, columns}).normal(2);
      set(*gate_up, 0, 0, -200.0);
      set(*gate_up, 0, 1, 200.0);
      const Owned act(dtype, {rows, columns}), act_again(dtype, {rows, columns}), dgate_up(dtype, {rows, 2 * columns});
      std::vector<double> expected_act(rows * columns), expected_gradient(rows * 2 * columns);
      for (int t = 0; t < rows; ++t) {
        for (int c = 0; c < columns; ++c) {
          const double g = get(*gate_up, t, c), u = get(*gate_up, t, c + columns), d = get(*dact, t, c);
          const double s = 1.0 / (1.0 + std::exp(-g));
          expected_act[t * columns + c] = g * s * u;
          expected_gradient[t * 2 * columns + c] = d * u * s * (1.0 + g * (1.0 - s));
          expected_gradient[t * 2 * columns + columns + c] = d * g * s;
        }
      }
      backend->run(GatedForward{*act, *gate_up});
      check_close(*act, expected_act, tolerance_of(dtype), label);
      backend->run(GatedBackward{*dgate_up, *act_again, *dact, *gate_up});
      check_close(*act_again, expected_act, tolerance_of(dtype), label);
      check_close(*dgate_up, expected_gradient, tolerance_of(dtype), label);
      backend->run(GatedBackward{*gate_up, *dact, *dact, *gate_up});
      BOOST_TEST((read(*gate_up) == read(*dgate_up)), label);
      BOOST_TEST((read(*dact) == read(*act)), label);
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
