// SPDX-License-Identifier: Apache-2.0
// Routers, the auxiliary loss and gates against numbers of transformers 5.23 with PyTorch 2.15 in float32: its router
// classes with the identity as weight, load_balancing_loss_func over two layers, and the gates of gpt-oss and Gemma.
#include "unit/ops/expert_reference.hpp"
#include "unit/ops/support.hpp"

namespace sft::ops::testing {

namespace {

constexpr std::int64_t num_tokens = 3, num_experts = 8, num_choices = 3;

const Values oracle_logits = {0.3, -1.2, 2.1, 0.7, -0.4, 1.6, 0.1, -2.0, 1.1, 0.9, -0.3, 2.4,
                              0.2, -1.5, 2.2, 0.6, -0.8, 0.5, 1.9, -0.1, 1.3, 0.4, -2.2, 0.0},
             oracle_dweights = {0.5, -1.0, 0.25, 1.5, 0.75, -0.5, -0.25, 2.0, 1.0},
             oracle_correction = {0.1, 0.6, -0.2, 0.0, 0.3, -0.4, 0.2, 0.5};

struct Oracle {
  std::string router;
  RouterRule rule;
  bool is_corrected;
  Values experts, weights, dlogits;  ///< experts in any order, weights and gradients of weights in theirs
};

const std::vector<Oracle> oracles = {
    {"Qwen3MoeTopKRouter, norm_topk_prob; MixtralTopKRouter; GptOssTopKRouter",
     {.normalize = true},
     false,
     {2, 5, 3, 3, 6, 0, 2, 4, 1},
     {0.53962821, 0.32730108, 0.13307069, 0.47818005, 0.39150071, 0.13031927, 0.55697632, 0.30567506, 0.13734867},
     {0, 0, 0.28288352,   0.036490548, 0, -0.31937408, 0,           0, -0.18840726, 0, 0, 0.26503801,
      0, 0, -0.076630764, 0,           0, 0.053640876, -0.47869593, 0, 0.42505503,  0, 0, 0}},
    {"Qwen3MoeTopKRouter",
     {},
     false,
     {2, 5, 3, 3, 6, 0, 2, 4, 1},
     {0.43681422, 0.26494125, 0.10771707, 0.37342107, 0.3057313, 0.10176911, 0.41889715, 0.22989562, 0.10329877},
     {0.0014155672, 0.00031585575, 0.22697079,   0.029041046,  0.00070294982, -0.25974712,
      0.0011589685, 0.00014192314, -0.12604567,  -0.061536718, -0.018534506,  0.28434315,
      -0.030558232, -0.0055824849, 0.0035019878, -0.045587525, -0.012904003,  0.055950154,
      -0.2967324,   -0.02598547,   0.35441497,   -0.042842802, -0.0031820883, -0.028718388}},
    {"Glm4MoeTopkRouter",
     {.score = RouterScore::sigmoid, .normalize = true, .scale = 2.5F, .num_groups = 4, .chosen_groups = 2},
     true,
     {2, 1, 0, 7, 1, 6, 7, 1, 0},
     {1.3126065, 0.34104252, 0.84635115, 0.71521676, 0.78754437, 0.99723887, 0.87260956, 1.0863279, 0.54106247},
     {0.014140522,  -0.31733432, 0.04142246,    0,          0, 0, 0, 0, 0, 0.064662181, 0, 0, 0, 0,
      -0.096087478, 0.26206309,  0.00066210807, 0.41086036, 0, 0, 0, 0, 0, -0.54460716}},
};

Owned filled(DType dtype, std::initializer_list<std::int64_t> shape, const Values& values) {
  Owned x(dtype, shape);
  for (std::int64_t r = 0; r < x->shape[0]; ++r) {
    for (std::int64_t c = 0; c < x->row_elements(); ++c) {
      set(*x, r, c, values[static_cast<std::size_t>(r * x->row_elements() + c)]);
    }
  }
  return x;
}

/// Weights by expert, a row for each token.
Values by_expert(const Values& experts, const Values& weights) {
  Values all(num_tokens * num_experts);
  for (std::size_t i = 0; i < experts.size(); ++i) {
    all[i / num_choices * num_experts + static_cast<std::size_t>(experts[i])] = weights[i];
  }
  return all;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(expert_oracle)

BOOST_AUTO_TEST_CASE(routers) {
  on_every_backend([](TestBackend& backend) {
    const Owned logits = filled(DType::float32, {num_tokens, num_experts}, oracle_logits),
                correction = filled(DType::float32, {num_experts, 1}, oracle_correction),
                dweights = filled(DType::float32, {num_tokens, num_choices}, oracle_dweights);
    for (const Oracle& oracle : oracles) {
      const Owned experts(DType::int32, {num_tokens, num_choices}), weights(DType::float32, {num_tokens, num_choices}),
          all(DType::float32, {num_tokens, num_experts}), dlogits(DType::float32, {num_tokens, num_experts});
      backend->run(RouterForward{.logits = *logits,
                                 .correction = oracle.is_corrected ? correction->view({num_experts}) : Tensor(),
                                 .experts = *experts,
                                 .weights = *weights,
                                 .rule = oracle.rule});
      const Values found = by_expert(read(*experts), read(*weights));
      check_close(*filled(DType::float64, {num_tokens, num_experts}, found), by_expert(oracle.experts, oracle.weights),
                  1e-6, oracle.router);
      const Owned chosen = filled(DType::int32, {num_tokens, num_choices}, oracle.experts);
      backend->run(RouterBackward{
          .dlogits = *dlogits, .logits = *logits, .experts = *chosen, .dweights = *dweights, .rule = oracle.rule});
      check_close(*dlogits, oracle.dlogits, 1e-6, oracle.router);
    }
  });
}

/// The second layer has half of the logits of the first, tokens in reverse.
BOOST_AUTO_TEST_CASE(auxiliary_loss) {
  on_every_backend([](TestBackend& backend) {
    const Owned counts = Owned(DType::float64, {num_experts}).fill(0.0),
                probabilities = Owned(DType::float64, {num_experts}).fill(0.0),
                dlogits = Owned(DType::float32, {num_tokens, num_experts}).fill(0.0);
    Values other;
    for (std::size_t t = num_tokens; t-- > 0;) {
      for (std::size_t e = 0; e < num_experts; ++e) other.push_back(0.5 * oracle_logits[t * num_experts + e]);
    }
    const Owned first = filled(DType::float32, {num_tokens, num_experts}, oracle_logits),
                second = filled(DType::float32, {num_tokens, num_experts}, other);
    for (const Owned* logits : {&first, &second}) {
      const Owned experts(DType::int32, {num_tokens, num_choices}), weights(DType::float32, {num_tokens, num_choices}),
          layer_counts(DType::int32, {num_experts}), offsets(DType::int32, {num_experts + 1}),
          choices(DType::int32, {num_tokens * num_choices}), rows(DType::int32, {num_tokens, num_choices});
      backend->run(
          RouterForward{.logits = **logits, .correction = {}, .experts = *experts, .weights = *weights, .rule = {}});
      backend->run(ExpertOrder{
          .experts = *experts, .counts = *layer_counts, .offsets = *offsets, .choices = *choices, .rows = *rows});
      backend->run(RouterSums{
          .logits = **logits, .expert_counts = *layer_counts, .counts = *counts, .probabilities = *probabilities});
    }
    constexpr double num_rows = 2 * num_tokens;
    double loss = 0.0;
    for (std::int64_t e = 0; e < num_experts; ++e) {
      loss += num_experts * counts->as<double>()[e] / num_rows * probabilities->as<double>()[e] / num_rows;
    }
    BOOST_TEST(std::abs(loss / 3.6118991374969482 - 1) < 1e-6, backend.name() << ": " << loss);
    backend->run(RouterSumsBackward{
        .dlogits = *dlogits, .logits = *first, .counts = *counts, .factor = num_experts / (num_rows * num_rows)});
    check_close(*dlogits, {-0.017242284,  -0.0038472735, 0.089829922,  0.022151789,  -0.008562264,  -0.06326706,
                           -0.014116789,  -0.0049461052, -0.015233291, -0.012471963, 0.0073972745,  0.11006946,
                           -0.0061933938, -0.0011314309, -0.045763332, -0.036673274, -0.0051666754, -0.018958066,
                           0.10929777,    0.014791844,   -0.042191949, -0.017153967, -0.0012740867, -0.039344814},
                2e-6, backend.name());
  });
}

BOOST_AUTO_TEST_CASE(gates) {
  on_every_backend([](TestBackend& backend) {
    constexpr std::int64_t size = 5;
    const Owned gate_up = filled(DType::float32, {1, 2 * size}, {0.5, -1.0, 8.0, 3.0, -3.0, -9.0, 7.0, 7.0, 2.0, 0.25}),
                dact = filled(DType::float32, {1, size}, {1.0, 0.5, -2.0, 0.25, 1.5});
    const auto compare = [&](Gate gate, const Values& act, const Values& gradient) {
      const Owned found(DType::float32, {1, size}), dgate_up(DType::float32, {1, 2 * size});
      backend->run(GatedBackward{.dgate_up = *dgate_up,
                                 .act = *found,
                                 .dact = *dact,
                                 .gate_up = *gate_up,
                                 .rule = {.gate = gate, .interleaved = true}});
      check_close(*found, act, 1e-6, backend.name());
      check_close(*dgate_up, gradient, 1e-6, backend.name());
    };
    compare(Gate::clamped_swish, {0, 27.999813, 0.10842787, 55.999626, 2.4195733},
            {0, 0.35038844, 0, 3.4999766, -0.29457995, 0, 0, 0, 2.0134039, 2.9034879});
    compare(Gate::gelu_tanh, {-0.345714, 24, 0.032736897, 49, 0.48864943},
            {-0.86736989, 0.345714, 1.5, 4, -0.20851734, 0.0072748661, 1.75, 1.75, 0.40728724, 2.9318967});
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
