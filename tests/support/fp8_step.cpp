// SPDX-License-Identifier: Apache-2.0
#include "support/fp8_step.hpp"

#include <cmath>

namespace sft::test {

namespace {

/// The root of the mean square by which rounding moves a number, relative to it, where numbers of all sizes are as
/// likely: half a digit of x in [1, 2) is 2^-(bits + 1), errors are uniform, and the mean of 1 / x^2 is 3 / (8 ln 2).
double mean_error(int mantissa_bits) {
  return std::ldexp(1.0, -mantissa_bits - 1) / std::sqrt(3.0) * std::sqrt(3.0 / (8.0 * std::log(2.0)));
}

}  // namespace

FirstStep first_step(config::Config config, std::int64_t max_length, const std::vector<rows::Row>& rows,
                     const Mesh& mesh, const comm::Session& session, const LogicalTensors& parameters) {
  config.train.precision = config::Precision::fp32;
  config.train.per_device_train_batch_size = static_cast<std::int64_t>(rows.size()) / mesh.place.data_size();
  EngineFixture fixture(config, max_length, mesh, session);
  fixture.engine().initialize();
  if (!parameters.empty()) fixture.set_parameters(parameters);
  const double loss = fixture.step(rows, 0, 1e-3).loss;
  return {loss, fixture.gather_gradients()};
}

double distance(const LogicalTensors& found, const LogicalTensors& expected) {
  double squares = 0.0, all = 0.0;
  for (const auto& [name, numbers] : expected) {
    const std::vector<float>& others = found.at(name);
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      squares += std::pow(others.at(i) - numbers[i], 2);
      all += std::pow(numbers[i], 2);
    }
  }
  return std::sqrt(squares / all);
}

double expected_fp8_distance(std::int64_t num_layers) {
  const double e4m3 = std::pow(mean_error(3), 2), e5m2 = std::pow(mean_error(2), 2);
  const auto num_products = static_cast<double>(4 * num_layers);
  return std::sqrt(num_products * 2.0 * e4m3 + (num_products + 1.0) * (e4m3 + e5m2));
}

}  // namespace sft::test
