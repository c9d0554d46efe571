// SPDX-License-Identifier: Apache-2.0
// Steps over a rank shard against a reference in double precision, element by element; padding is left alone.

#include "sft/optim/optimizer.hpp"

#include <bit>
#include <boost/test/unit_test.hpp>
#include <cmath>

#include "support/stored_part.hpp"
#include "unit/optim/shard_fixture.hpp"

namespace sft::optim {

BOOST_AUTO_TEST_SUITE(adamw)

namespace {

constexpr float sentinel = 1234.5F;  ///< in padding
constexpr BFloat16 bf16_sentinel{0x4242};

/// A number in about [-1, 1] that depends on the element and on `round`.
double value_of(std::int64_t element, int round) {
  return std::sin(0.7 * static_cast<double>(element) + 2.3 * static_cast<double>(round));
}

/// Parameters, gradients and moments of one rank of a 3 x 2 mesh of fsdp and tp, in real memory.
struct Fixture {
  explicit Fixture(DType compute, WorldRank rank)
      : storage(sft::test::stored_part(test::sample_units(), {{{Axis::dp_shard, 3}, {Axis::tp, 2}}, rank}, compute)) {
    memory.lay_out([&](device::Arena& arena) { storage.lay_out(arena, arena, arena); });
    memory.lay_out([&](device::Arena& arena) { optimizer->lay_out(arena, arena); });
    for (const Tensor& x : {storage.parameters(), exp_avg(), exp_avg_sq()}) test::fill(x, sentinel);
    const Tensor copy = storage.compute_copy();
    if (!copy.empty()) std::fill_n(copy.as<BFloat16>(), copy.num_elements(), bf16_sentinel);
    test::for_each_element(shard_map, [&](const parallel::Parameter&, std::int64_t, std::int64_t, std::int64_t at) {
      storage.parameters().as<float>()[at] = static_cast<float>(value_of(at, 0));
      exp_avg().as<float>()[at] = 0.0F;
      exp_avg_sq().as<float>()[at] = 0.0F;
    });
  }

  [[nodiscard]] Tensor exp_avg() const { return optimizer->state().at(0).tensor; }
  [[nodiscard]] Tensor exp_avg_sq() const { return optimizer->state().at(1).tensor; }

  static config::Optimizer make_keys() {
    config::Optimizer optimizer;
    optimizer.weight_decay = 0.3;
    optimizer.adam_beta1 = 0.8;
    optimizer.adam_beta2 = 0.95;
    optimizer.adam_epsilon = 1e-6;
    return optimizer;
  }

  config::Optimizer keys = make_keys();
  test::Memory memory;
  parallel::UnitStorage storage;
  const parallel::ShardMap& shard_map = storage.shard_map();
  std::unique_ptr<Optimizer> optimizer = make_optimizer(keys, shard_map);
};

/// One element of torch.optim.AdamW, in double precision.
struct Reference {
  double parameter = 0.0, exp_avg = 0.0, exp_avg_sq = 0.0;

  void step(const config::Optimizer& o, int t, double learning_rate, double decay, double gradient) {
    parameter *= 1 - learning_rate * decay;
    exp_avg = o.adam_beta1 * exp_avg + (1 - o.adam_beta1) * gradient;
    exp_avg_sq = o.adam_beta2 * exp_avg_sq + (1 - o.adam_beta2) * gradient * gradient;
    const double mean = exp_avg / (1 - std::pow(o.adam_beta1, t));
    const double mean_sq = exp_avg_sq / (1 - std::pow(o.adam_beta2, t));
    parameter -= learning_rate * mean / (std::sqrt(mean_sq) + o.adam_epsilon);
  }
};

/// Round to nearest even.
BFloat16 bf16_of(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return {static_cast<std::uint16_t>((bits + 0x7fffU + ((bits >> 16U) & 1U)) >> 16U)};
}

}  // namespace

BOOST_AUTO_TEST_CASE(steps_equal_a_reference_and_decay_matrices_alone) {
  for (const DType compute : {DType::float32, DType::bf16}) {
    for (const WorldRank rank : IndexRange<WorldRank>(6)) {
      Fixture f(compute, rank);
      std::vector<Reference> expected(static_cast<std::size_t>(f.shard_map.rank_shard_elements()));
      test::for_each_element(f.shard_map, [&](const parallel::Parameter&, std::int64_t, std::int64_t, std::int64_t at) {
        expected[static_cast<std::size_t>(at)].parameter = value_of(at, 0);
      });
      for (int step = 1; step <= 4; ++step) {
        const double learning_rate = 0.02 / step, gradient_scale = 1.0 / (1 + step);
        test::fill(f.storage.gradients(), sentinel);
        test::for_each_element(
            f.shard_map, [&](const parallel::Parameter& p, std::int64_t, std::int64_t, std::int64_t at) {
              const double gradient = value_of(at, step);
              f.storage.gradients().as<float>()[at] = static_cast<float>(gradient);
              expected[static_cast<std::size_t>(at)].step(
                  f.keys, step, learning_rate, p.is_vector() ? 0.0 : f.keys.weight_decay, gradient_scale * gradient);
            });
        step_all(*f.optimizer, f.storage, *f.memory.backend, step, learning_rate, gradient_scale);
      }
      double worst = 0.0;
      std::int64_t num_wrong_copies = 0;
      test::for_each_element(f.shard_map, [&](const parallel::Parameter&, std::int64_t, std::int64_t, std::int64_t at) {
        const Reference& e = expected[static_cast<std::size_t>(at)];
        const float parameter = f.storage.parameters().as<float>()[at];
        for (const double error : {parameter - e.parameter, f.exp_avg().as<float>()[at] - e.exp_avg,
                                   f.exp_avg_sq().as<float>()[at] - e.exp_avg_sq}) {
          worst = std::max(worst, std::isnan(error) ? 1.0 : std::abs(error));
        }
        if (compute == DType::bf16) {
          num_wrong_copies += f.storage.compute_copy().as<BFloat16>()[at].bits != bf16_of(parameter).bits ? 1 : 0;
        }
      });
      BOOST_TEST(worst < 1e-6, "rank " << rank << ": error " << worst);
      BOOST_TEST(num_wrong_copies == 0, "rank " << rank);
    }
  }
}

BOOST_AUTO_TEST_CASE(padding_is_left_as_it_was) {
  for (const WorldRank rank : IndexRange<WorldRank>(6)) {
    Fixture f(DType::bf16, rank);
    test::fill(f.storage.gradients(), 1.0F);
    step_all(*f.optimizer, f.storage, *f.memory.backend, 1, 0.1, 1.0);
    for (const parallel::ShardRange& gap : f.shard_map.padding()) {
      for (std::int64_t at = gap.begin; at < gap.begin + gap.count; ++at) {
        BOOST_TEST_REQUIRE(f.storage.parameters().as<float>()[at] == sentinel);
        BOOST_TEST_REQUIRE(f.exp_avg().as<float>()[at] == sentinel);
        BOOST_TEST_REQUIRE(f.exp_avg_sq().as<float>()[at] == sentinel);
        BOOST_TEST_REQUIRE(f.storage.compute_copy().as<BFloat16>()[at].bits == bf16_sentinel.bits);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(its_state_is_two_moments_of_the_rank_shard) {
  const parallel::ShardMap shard_map(test::sample_units(), {{{Axis::dp_shard, 2}}, 1});
  const config::Optimizer optimizer;
  const std::unique_ptr<Optimizer> adamw = make_optimizer(optimizer, shard_map);
  device::Arena sizing, pinned;
  adamw->lay_out(sizing, pinned);
  BOOST_TEST(pinned.used_bytes() == 0U);
  BOOST_TEST(sizing.used_bytes() == 2 * static_cast<std::size_t>(shard_map.rank_shard_elements()) * sizeof(float));
}

BOOST_AUTO_TEST_CASE(lion_keeps_one_moment_and_sgd_nothing) {
  const parallel::ShardMap shard_map(test::sample_units(), {{{Axis::dp_shard, 2}}, 1});
  for (const auto& [kind, num_states] : {std::pair<config::OptimizerKind, std::size_t>{config::OptimizerKind::lion, 1},
                                         {config::OptimizerKind::sgd, 0}}) {
    config::Optimizer keys;
    keys.optim = kind;
    const std::unique_ptr<Optimizer> optimizer = make_optimizer(keys, shard_map);
    device::Arena sizing, pinned;
    optimizer->lay_out(sizing, pinned);
    BOOST_TEST(optimizer->state().size() == num_states);
    BOOST_TEST(sizing.used_bytes() ==
               num_states * static_cast<std::size_t>(shard_map.rank_shard_elements()) * sizeof(float));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::optim
