// SPDX-License-Identifier: Apache-2.0
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
        backend->adamw(*parameters, *gradients, *exp_avg, *exp_avg_sq, step % 2 == 0 ? Tensor{} : *copy,
                       {lr, beta1, beta2, epsilon, decay, correction1, correction2, scale});
      }
      check_close(*parameters, p, 1e-6, backend.name());
      check_close(*exp_avg, m, 1e-6, backend.name());
      check_close(*exp_avg_sq, v, 1e-6, backend.name());
      check_close(*copy, p, tolerance_of(DType::bf16), backend.name());
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
