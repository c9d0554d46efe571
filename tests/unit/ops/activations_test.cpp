// SPDX-License-Identifier: Apache-2.0
// Squared ReLUs, and activations without a gate.

#include <boost/test/unit_test.hpp>
#include <cmath>

#include "unit/ops/expert_reference.hpp"
#include "unit/ops/support.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(activations)

namespace {

double activation_of(Gate gate, double x) {
  if (gate == Gate::relu2) return x > 0 ? x * x : 0.0;
  if (gate == Gate::silu) return x / (1 + std::exp(-x));
  return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(activations_without_a_gate_and_their_gradients) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const Gate gate : {Gate::silu, Gate::gelu_tanh, Gate::relu2}) {
      const GateRule rule{.gate = gate, .alone = true};
      const auto value = [&](const Values& x) { return activation_of(gate, x[0]); };
      for (const auto& [rows, columns] : {std::pair{1, 3}, {7, 67}, {60, 352}}) {
        const Owned up = Owned(dtype, {rows, columns}).normal(1, 3.0), dact = Owned(dtype, {rows, columns}).normal(2),
                    act(dtype, {rows, columns}), again(dtype, {rows, columns}), dup(dtype, {rows, columns});
        Values expected, gradient;
        for (int t = 0; t < rows; ++t) {
          for (int c = 0; c < columns; ++c) {
            const Values x = {get(*up, t, c)};
            expected.push_back(value(x));
            gradient.push_back(get(*dact, t, c) * slope(x, 0, value));
          }
        }
        backend->run(GatedForward{.act = *act, .gate_up = *up, .rule = rule});
        check_close(*act, expected, tolerance_of(dtype), label);
        backend->run(GatedBackward{.dgate_up = *dup, .act = *again, .dact = *dact, .gate_up = *up, .rule = rule});
        check_close(*again, expected, tolerance_of(dtype), label);
        check_close(*dup, gradient, tolerance_of(dtype), label);
        backend->run(GatedBackward{.dgate_up = *up, .act = *dact, .dact = *dact, .gate_up = *up, .rule = rule});
        BOOST_TEST((read(*up) == read(*dup)), label);
        BOOST_TEST((read(*dact) == read(*act)), label);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_squared_relu_may_be_a_gate) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    constexpr int rows = 7, columns = 67;
    const Owned gate_up = Owned(dtype, {rows, 2 * columns}).normal(1, 3.0),
                dact = Owned(dtype, {rows, columns}).normal(2), act(dtype, {rows, columns}),
                dgate_up(dtype, {rows, 2 * columns});
    const GateRule rule{.gate = Gate::relu2};
    const auto value = [&](const Values& x) { return activation_of(Gate::relu2, x[0]) * x[1]; };
    const auto place_of = [](int row, int column) { return static_cast<std::size_t>(row * 2 * columns + column); };
    Values expected, gradient(static_cast<std::size_t>(rows * 2 * columns));
    for (int t = 0; t < rows; ++t) {
      for (int c = 0; c < columns; ++c) {
        const Values x = {get(*gate_up, t, c), get(*gate_up, t, c + columns)};
        expected.push_back(value(x));
        gradient[place_of(t, c)] = get(*dact, t, c) * slope(x, 0, value);
        gradient[place_of(t, c + columns)] = get(*dact, t, c) * slope(x, 1, value);
      }
    }
    backend->run(GatedBackward{.dgate_up = *dgate_up, .act = *act, .dact = *dact, .gate_up = *gate_up, .rule = rule});
    check_close(*act, expected, tolerance_of(dtype), label);
    check_close(*dgate_up, gradient, tolerance_of(dtype), label);
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
