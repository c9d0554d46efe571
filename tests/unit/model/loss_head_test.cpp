// SPDX-License-Identifier: Apache-2.0
#include "sft/model/loss_head.hpp"

#include <boost/test/unit_test.hpp>

namespace sft::model {

namespace {

constexpr std::int64_t num_tokens = 8192, vocab = 32000;
constexpr Sizes sizes{.tokens = num_tokens,
                      .hidden = 64,
                      .vocab = vocab,
                      .vocab_begin = 0,
                      .max_vocab = vocab,
                      .compute = DType::float32,
                      .partial = DType::float32};

/// What a head takes from an arena, without a device.
std::size_t planned_bytes(const Sizes& of, device::Kind kind, const Objective& objective = {}) {
  device::Arena sizing;
  LossHead(of, kind, objective).lay_out(sizing, sizing);
  return sizing.used_bytes();
}

}  // namespace

BOOST_AUTO_TEST_SUITE(loss_head)

BOOST_AUTO_TEST_CASE(a_chunk_is_planned_without_a_device_and_by_its_kind) {
  const std::int64_t on_cpu = LossHead(sizes, device::Kind::cpu).chunk_tokens();
  const std::int64_t on_gpu = LossHead(sizes, device::Kind::cuda).chunk_tokens();
  BOOST_TEST(on_cpu < on_gpu);
  BOOST_TEST(on_gpu < num_tokens);
  const auto logits_bytes = [](std::int64_t chunk) { return static_cast<std::size_t>(chunk * vocab) * sizeof(float); };
  const auto rest_bytes = [](std::int64_t chunk) { return static_cast<std::size_t>(4 * chunk) * sizeof(float); };
  BOOST_TEST(planned_bytes(sizes, device::Kind::cpu) == logits_bytes(on_cpu) + rest_bytes(on_cpu));
  BOOST_TEST(planned_bytes(sizes, device::Kind::cuda) == logits_bytes(on_gpu) + rest_bytes(on_gpu));
}

BOOST_AUTO_TEST_CASE(low_precision_gradients_of_logits_have_memory_of_their_own) {
  Sizes low = sizes;
  low.compute = DType::bf16;
  const auto chunk = static_cast<std::size_t>(LossHead(sizes, device::Kind::cpu).chunk_tokens());
  BOOST_TEST(planned_bytes(low, device::Kind::cpu) ==
             planned_bytes(sizes, device::Kind::cpu) + chunk * vocab * size_of(DType::bf16));
}

BOOST_AUTO_TEST_CASE(an_objective_has_the_memory_of_its_sums) {
  config::Config config;
  config.model.vocab_size = vocab;
  const auto bytes = [&] { return planned_bytes(sizes, device::Kind::cpu, Objective(config)); };
  const std::size_t plain = bytes(), sum_bytes = LossHead(sizes, device::Kind::cpu).chunk_tokens() * sizeof(float);
  BOOST_TEST(plain == planned_bytes(sizes, device::Kind::cpu));
  config.train.loss_type = config::LossType::dft;
  BOOST_TEST(bytes() == plain);
  config.train.loss_type = config::LossType::nll;
  config.train.label_smoothing_factor = 0.1;
  BOOST_TEST(bytes() == plain + sum_bytes);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::model
