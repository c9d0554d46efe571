// SPDX-License-Identifier: Apache-2.0
// The decoder on its own, on any mesh: it reads what it is given, writes every gradient once, and writes none for
// parameters that are not trained, while those of the others keep every bit. Adapters: as the weights that they stand
// for.

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "decoder_stand.hpp"
#include "sft/model/layers/attention.hpp"

namespace sft::test {

namespace {

/// The meshes of as many ranks as there are.
std::vector<mesh::Layout> layouts(int num_ranks) {
  if (num_ranks == 1) return {{}};
  if (num_ranks == 2) return {{{Axis::dp_shard, 2}}, {{Axis::sp, 2}}, {{Axis::tp, 2}}, {{Axis::dp_replicate, 2}}};
  return {{{Axis::dp_shard, 2}, {Axis::tp, 2}}, {{Axis::dp_replicate, 2}, {Axis::sp, 2}}, {{Axis::tp, 4}}};
}

/// What there is to choose on such a mesh.
std::vector<Tokens> tokens_on(const mesh::Layout& layout) {
  return layout[Axis::tp] > 1 ? std::vector{Tokens::whole, Tokens::cut} : std::vector{Tokens::whole};
}

struct Case {
  std::string name;
  model::IsTrainable is_trainable;
};

std::vector<Case> cases() {
  const auto has = [](const char* part) {
    return [part](const std::string& name) { return name.find(part) != std::string::npos; };
  };
  return {{"norms", has("norm")},
          {"one block", has("layers.1.")},
          {"attention's products", has("_proj.weight")},
          {"biases", has("bias")},
          {"embedding and head", [](const std::string& name) { return name.find("layers") == std::string::npos; }}};
}

bool no_parameters(const std::string&) { return false; }

config::Lora small_lora() {
  config::Lora lora;
  lora.use_peft = true;
  lora.lora_r = 4;
  lora.lora_alpha = 6.0;
  lora.lora_dropout = 0.0;
  return lora;
}

using Checkpointing = config::ActivationCheckpointing;
using Location = model::ActivationPolicy::Location;

/// What a run computes.
struct Outcome {
  double loss;
  LogicalTensors gradients;
  bool operator==(const Outcome&) const = default;
};

Outcome outcome_of(Stand& stand, std::optional<std::uint64_t> dropout_seed = {}) {
  const double loss = stand.run(dropout_seed);
  return {loss, stand.gradients()};
}

/// The largest distance of two tensors of one name, over the norm of the expected one.
double distance(const LogicalTensors& tensors, const LogicalTensors& expected) {
  double worst = 0.0;
  for (const auto& [name, values] : expected) {
    double difference = 0.0, size = 0.0;
    for (std::size_t i = 0; i < values.size(); ++i) {
      const double value = values[i], delta = tensors.at(name)[i] - value;
      difference += delta * delta;
      size += value * value;
    }
    worst = std::max(worst, std::sqrt(difference / size));
  }
  return worst;
}

const std::string adapter_prefix = "base_model.model.", a_suffix = ".lora_A.weight", b_suffix = ".lora_B.weight";

/// The linear layers that have an adapter, such as model.layers.0.self_attn.q_proj.
std::vector<std::string> modules_of(const LogicalTensors& adapters) {
  std::vector<std::string> modules;
  for (const auto& [name, values] : adapters) {
    if (!name.ends_with(a_suffix)) continue;
    modules.push_back(name.substr(adapter_prefix.size(), name.size() - adapter_prefix.size() - a_suffix.size()));
  }
  return modules;
}

/// The two matrices of one adapter, or their gradients.
struct Factors {
  Factors(const LogicalTensors& adapters, const std::string& module, std::int64_t rank)
      : a(adapters.at(adapter_prefix + module + a_suffix)),
        b(adapters.at(adapter_prefix + module + b_suffix)),
        r(rank),
        rows(std::ssize(b) / rank),
        columns(std::ssize(a) / rank) {}
  [[nodiscard]] double a_at(std::int64_t i, std::int64_t j) const {
    return a[static_cast<std::size_t>(i * columns + j)];
  }
  [[nodiscard]] double b_at(std::int64_t i, std::int64_t j) const { return b[static_cast<std::size_t>(i * r + j)]; }
  const std::vector<float>&a, &b;
  std::int64_t r, rows, columns;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(decoder)

BOOST_AUTO_TEST_CASE(every_gradient_is_written) {
  const auto check_gradients = [](Stand& stand, const std::string& what) {
    std::fill_n(stand.gradient_shard().as<float>(), stand.gradient_shard().num_elements(),
                std::numeric_limits<float>::quiet_NaN());
    static_cast<void>(stand.run());
    for (const auto& [name, values] : stand.gradients()) {
      const bool are_finite = std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
      const bool are_zero = std::all_of(values.begin(), values.end(), [](float x) { return x == 0.0F; });
      BOOST_TEST(are_finite, what << ": " << name);
      BOOST_TEST((!are_zero || values.size() < 64U), what << ": " << name << " is zero");
    }
  };
  for (const mesh::Layout& layout : layouts(session().world().size())) {
    for (const bool tied : {false, true}) {
      const config::Model config = small_model(tied);
      const Mesh mesh(session().world(), layout, config);
      for (const Tokens tokens : tokens_on(layout)) {
        Stand stand(config, mesh, model::all_parameters, {}, {}, tokens);
        check_gradients(stand, layout.describe());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(tokens_that_are_cut_over_tp_give_the_gradients_of_whole_ones) {
  const model::ActivationPolicy policies[] = {{},
                                              {.mlp_tile_tokens = 7},
                                              {.checkpointing = Checkpointing::selective},
                                              {Checkpointing::full, 5, Location::host}};
  for (const mesh::Layout& layout : layouts(session().world().size())) {
    if (layout[Axis::tp] == 1) continue;
    config::Model config = small_model(/*tied=*/layout[Axis::dp_shard] > 1);
    config.attention_output_bias = config.mlp_bias = true;
    const Mesh mesh(session().world(), layout, config);
    config::Lora lora = small_lora();
    lora.lora_dropout = 0.3;
    for (const bool has_adapters : {false, true}) {
      for (const model::ActivationPolicy& policy : policies) {
        const auto outcome_with = [&](Tokens tokens) {
          Stand stand(config, mesh, has_adapters ? no_parameters : model::all_parameters,
                      has_adapters ? lora : config::Lora{}, policy, tokens);
          return outcome_of(stand, 1);
        };
        const Outcome whole = outcome_with(Tokens::whole), cut = outcome_with(Tokens::cut);
        BOOST_TEST_CONTEXT(layout.describe() << ", adapters " << has_adapters << ", tile " << policy.mlp_tile_tokens) {
          BOOST_TEST(cut.loss == whole.loss, boost::test_tools::tolerance(1e-6));
          BOOST_TEST(distance(cut.gradients, whole.gradients) < 1e-5);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(parameters_that_are_not_trained_change_no_bit_of_the_others) {
  for (const mesh::Layout& layout : layouts(session().world().size())) {
    for (const bool tied : {false, true}) {
      const config::Model config = small_model(tied);
      const Mesh mesh(session().world(), layout, config);
      Stand all(config, mesh, model::all_parameters);
      const double loss = all.run();
      const LogicalTensors expected = all.gradients();
      for (const Case& c : cases()) {
        Stand some(config, mesh, c.is_trainable);
        const std::string what = layout.describe() + ", " + c.name;
        BOOST_TEST(some.run() == loss, what);
        BOOST_TEST(some.storage_bytes() < all.storage_bytes(), what);
        const LogicalTensors found = some.gradients();
        BOOST_TEST(!found.empty(), what);
        for (const auto& [name, sum] : expected) {
          const auto at = found.find(name);
          BOOST_TEST((at != found.end()) == c.is_trainable(name), what << ": " << name);
          if (at != found.end()) BOOST_TEST(at->second == sum, what << ": " << name);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(adapters_are_the_weights_that_they_stand_for) {
  for (const mesh::Layout& layout : layouts(session().world().size())) {
    for (const auto& targets : {std::vector<std::string>{"all-linear"}, {"q_proj", "v_proj", "down_proj"}}) {
      const config::Model config = small_model(false);
      const Mesh mesh(session().world(), layout, config);
      config::Lora lora = small_lora();
      lora.lora_target_modules = targets;
      Stand low(config, mesh, no_parameters, lora);
      Stand whole(config, mesh, model::all_parameters);
      const LogicalTensors adapters = low.parameters(/*trained=*/true);
      LogicalTensors weights = low.parameters(/*trained=*/false);
      for (const std::string& module : modules_of(adapters)) {
        const Factors f(adapters, module, lora.lora_r);
        std::vector<float>& weight = weights.at(module + ".weight");
        for (std::int64_t n = 0; n < f.rows; ++n) {
          for (std::int64_t c = 0; c < f.columns; ++c) {
            double sum = 0.0;
            for (std::int64_t r = 0; r < lora.lora_r; ++r) sum += f.b_at(n, r) * f.a_at(r, c);
            weight[static_cast<std::size_t>(n * f.columns + c)] += static_cast<float>(lora.size_of("").scale * sum);
          }
        }
      }
      whole.set_trained(weights);
      const double expected_loss = whole.run();
      BOOST_TEST(low.run() == expected_loss, boost::test_tools::tolerance(1e-6));

      const LogicalTensors gradients = low.gradients(), whole_gradients = whole.gradients();
      BOOST_TEST(gradients.size() == adapters.size());
      for (const std::string& module : modules_of(adapters)) {
        const Factors f(adapters, module, lora.lora_r), found(gradients, module, lora.lora_r);
        const std::vector<float>& dweight = whole_gradients.at(module + ".weight");
        const auto dweight_at = [&](std::int64_t n, std::int64_t c) {
          return static_cast<double>(dweight[static_cast<std::size_t>(n * f.columns + c)]);
        };
        double difference = 0.0, size = 0.0;
        const auto compare = [&](double expected, double is) {
          difference += (is - expected) * (is - expected);
          size += expected * expected;
        };
        for (std::int64_t r = 0; r < lora.lora_r; ++r) {
          for (std::int64_t c = 0; c < f.columns; ++c) {
            double sum = 0.0;
            for (std::int64_t n = 0; n < f.rows; ++n) sum += f.b_at(n, r) * dweight_at(n, c);
            compare(lora.size_of("").scale * sum, found.a_at(r, c));
          }
          for (std::int64_t n = 0; n < f.rows; ++n) {
            double sum = 0.0;
            for (std::int64_t c = 0; c < f.columns; ++c) sum += f.a_at(r, c) * dweight_at(n, c);
            compare(lora.size_of("").scale * sum, found.b_at(n, r));
          }
        }
        BOOST_TEST(std::sqrt(difference) < 1e-5 * std::sqrt(size), layout.describe() << ": " << module);
      }
    }
  }
}

void check_dropout_in_both_passes(bool has_magnitudes) {
  for (const mesh::Layout& layout : layouts(session().world().size())) {
    const config::Model config = small_model(false);
    const Mesh mesh(session().world(), layout, config);
    config::Lora lora = small_lora();
    lora.lora_dropout = 0.3;
    lora.use_dora = has_magnitudes;
    Stand stand(config, mesh, no_parameters, lora);
    const double without = stand.run(), loss = stand.run(1);
    BOOST_TEST(stand.run(1) == loss);
    BOOST_TEST(stand.run(2) != loss);
    BOOST_TEST(without != loss);

    // The slope of the loss along the gradient itself; with magnitudes along that of these alone, for the gradients of
    // A and B leave out what they do to norms.
    BOOST_TEST(stand.run(1) == loss);
    const LogicalTensors parameters = stand.parameters(/*trained=*/true);
    LogicalTensors gradients = stand.gradients();
    if (has_magnitudes) {
      std::erase_if(gradients, [](const auto& one) { return !one.first.ends_with(".lora_magnitude_vector"); });
      BOOST_TEST(gradients.size() == 21);
    }
    double square = 0.0;
    for (const auto& [name, values] : gradients) {
      for (const float value : values) square += static_cast<double>(value) * static_cast<double>(value);
    }
    const double distance = 0.01 / std::sqrt(square);
    const auto loss_at = [&](double along) {
      LogicalTensors moved = parameters;
      for (const auto& [name, gradient] : gradients) {
        std::vector<float>& values = moved.at(name);
        for (std::size_t i = 0; i < values.size(); ++i) values[i] += static_cast<float>(along * gradient[i]);
      }
      stand.set_trained(moved);
      return stand.run(1);
    };
    const double slope = (loss_at(distance) - loss_at(-distance)) / (2.0 * distance);
    BOOST_TEST(slope == square, boost::test_tools::tolerance(2e-3));
  }
}

BOOST_AUTO_TEST_CASE(dropout_of_adapters_is_the_same_in_both_passes) { check_dropout_in_both_passes(false); }
BOOST_AUTO_TEST_CASE(so_is_that_of_adapters_with_magnitudes) { check_dropout_in_both_passes(true); }

BOOST_AUTO_TEST_CASE(what_is_computed_again_or_offloaded_has_the_same_bits) {
  struct Way {
    bool has_qk_norm, has_adapters;
    std::int64_t tile_tokens;
    Tokens tokens = Tokens::whole;
    config::BlockNorms norms = config::BlockNorms::pre;
    double residual_multiplier = 1.0;
  };
  constexpr Way ways[] = {{true, false, INT64_MAX},
                          {false, false, 7},
                          {true, true, 7},
                          {true, false, 7, Tokens::cut},
                          {false, false, 7, Tokens::cut, config::BlockNorms::glm4},
                          {true, true, INT64_MAX, Tokens::whole, config::BlockNorms::glm4},
                          {true, true, 7, Tokens::cut, config::BlockNorms::olmo2},
                          {false, false, 7, Tokens::cut, config::BlockNorms::pre, 0.5}};
  for (const mesh::Layout& layout : layouts(session().world().size())) {
    for (const Way& way : ways) {
      config::Model config = small_model(!way.has_qk_norm);
      config.num_hidden_layers = 4;
      config.qk_norm = way.has_qk_norm;
      config.qk_norm_all_heads = way.norms == config::BlockNorms::olmo2;
      config.block_norms = way.norms;
      config.residual_multiplier = way.residual_multiplier;
      const Mesh mesh(session().world(), layout, config);
      config::Lora lora;
      if (way.has_adapters) lora = small_lora();
      if (way.has_adapters) lora.lora_dropout = 0.3;
      lora.use_dora = way.has_adapters && way.tile_tokens == 7;
      const auto outcome_with = [&](const model::ActivationPolicy& policy) {
        Stand stand(config, mesh, way.has_adapters ? no_parameters : model::all_parameters, lora, policy, way.tokens);
        return outcome_of(stand, 1);
      };
      const Outcome expected = outcome_with({.mlp_tile_tokens = way.tile_tokens});
      for (const Location location : {Location::device, Location::host}) {
        for (const Checkpointing mode : {Checkpointing::none, Checkpointing::selective, Checkpointing::full}) {
          if (location == Location::device && mode == Checkpointing::none) continue;
          const bool is_same = outcome_with({mode, way.tile_tokens, location}) == expected;
          BOOST_TEST(is_same, layout.describe() << ", q/k norm " << way.has_qk_norm << ", adapters " << way.has_adapters
                                                << ", location " << static_cast<int>(location) << ", mode "
                                                << static_cast<int>(mode));
        }
      }
    }
  }
}

/// A decoder is its sublayers in their order, however many of them a block has.
BOOST_AUTO_TEST_CASE(blocks_of_one_sublayer_or_of_four_have_the_bits_of_blocks_of_two) {
  const std::vector<model::ActivationPolicy> policies = {
      {.checkpointing = Checkpointing::none},
      {.checkpointing = Checkpointing::selective},
      {.checkpointing = Checkpointing::full},
      {.checkpointing = Checkpointing::full, .location = Location::host},
  };
  const auto cut_into = [](std::size_t num_of_block) {
    return [=](IndexedVector<model::BlockIndex, model::BlockParameters>& blocks) {
      std::vector<model::BlockParameters> cut;
      for (const model::BlockParameters& block : blocks) {
        for (const model::BlockSublayer& sublayer : block.sublayers) {
          if (cut.empty() || cut.back().sublayers.size() == num_of_block) cut.push_back({block.plan, {}});
          cut.back().sublayers.push_back(sublayer);
        }
      }
      blocks = IndexedVector<model::BlockIndex, model::BlockParameters>(cut);
    };
  };
  for (const mesh::Layout& layout : layouts(session().world().size())) {
    for (const config::BlockNorms norms : {config::BlockNorms::pre, config::BlockNorms::glm4}) {
      config::Model config = small_model(false);
      config.block_norms = norms;
      const Mesh mesh(session().world(), layout, config);
      for (const Tokens tokens : tokens_on(layout)) {
        const Outcome expected = [&] {
          Stand stand(config, mesh, model::all_parameters, {}, {}, tokens);
          return outcome_of(stand);
        }();
        BOOST_TEST(std::isfinite(expected.loss));
        for (const std::size_t num_of_block : {1U, 4U}) {
          for (const model::ActivationPolicy& policy : policies) {
            Stand stand(config, mesh, model::all_parameters, {}, policy, tokens, cut_into(num_of_block));
            const bool is_same = outcome_of(stand) == expected;
            BOOST_TEST(is_same, layout.describe() << ", blocks of " << num_of_block << ", location "
                                                  << static_cast<int>(policy.location) << ", mode "
                                                  << static_cast<int>(policy.checkpointing));
          }
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(tiles_of_any_size_give_the_same_gradients) {
  for (const mesh::Layout& layout : layouts(session().world().size())) {
    const config::Model config = small_model(false);
    const Mesh mesh(session().world(), layout, config);
    config::Lora lora = small_lora();
    lora.lora_dropout = 0.3;
    for (const bool has_adapters : {false, true}) {
      const auto outcome_with = [&](std::int64_t tile_tokens) {
        Stand stand(config, mesh, has_adapters ? no_parameters : model::all_parameters,
                    has_adapters ? lora : config::Lora{}, {Checkpointing::full, tile_tokens});
        return outcome_of(stand, 1);
      };
      const Outcome whole = outcome_with(INT64_MAX);
      for (const std::int64_t tile_tokens : {5, 1000}) {
        const Outcome tiled = outcome_with(tile_tokens);
        BOOST_TEST_CONTEXT(layout.describe() << ", adapters " << has_adapters << ", tiles of " << tile_tokens) {
          BOOST_TEST(tiled.loss == whole.loss, boost::test_tools::tolerance(1e-6));
          BOOST_TEST(distance(tiled.gradients, whole.gradients) < 1e-5);
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(memory_shrinks_by_what_is_not_kept) {
  config::Model config = small_model(false);
  config.num_hidden_layers = 6;
  const Mesh mesh(session().world(), layouts(session().world().size()).front(), config);
  const model::Sizes s = sizes_of(config, mesh.place);
  const model::HeadSplit split = model::split_heads(config, s.tp_size, mesh.place.tp_rank());
  const model::HeadSizes heads{split.q_heads, split.kv_heads, config.head_dim};
  const std::int64_t mlp = config.intermediate_size / s.tp_size;
  const auto stand_with = [&](const model::ActivationPolicy& policy) {
    return std::make_unique<Stand>(config, mesh, model::all_parameters, config::Lora{}, policy);
  };
  // Arenas round each tensor up.
  const auto is_about = [](std::size_t bytes, std::int64_t floats) {
    const double expected = 4.0 * static_cast<double>(floats);
    return std::abs(static_cast<double>(bytes) - expected) <= 0.03 * expected + 20 * device::Arena::alignment_bytes;
  };
  const std::int64_t num_layers = config.num_hidden_layers, last = 1;
  const std::int64_t input = s.hidden + 1, products = heads.qkv_columns() + heads.q_columns() + heads.q_heads + 2 * mlp;
  const std::int64_t followers = heads.q_columns() + heads.kv_columns() + heads.q_heads + heads.kv_heads + s.hidden + 1;
  const auto none = stand_with({}), selective = stand_with({.checkpointing = Checkpointing::selective}),
             full = stand_with({.checkpointing = Checkpointing::full}),
             tiled = stand_with({.checkpointing = Checkpointing::full, .mlp_tile_tokens = 4}),
             offloaded = stand_with({.location = Location::file});
  BOOST_TEST(is_about(none->activation_bytes(), s.tokens * (num_layers * (input + products + followers) + last)));
  BOOST_TEST(is_about(selective->activation_bytes(), s.tokens * (num_layers * (input + products) + last)));
  BOOST_TEST(is_about(full->activation_bytes(), s.tokens * (num_layers * input + last)));
  BOOST_TEST(is_about(offloaded->activation_bytes(), s.tokens * (2 * (input + products + followers) + last)));
  BOOST_TEST(tiled->activation_bytes() == full->activation_bytes());
  // The gradient of q, k and v lies where the middle and three columns of an MLP's tokens do, or of its tile's.
  const auto beside_middle = [&](std::int64_t num_tokens) {
    return std::max(s.tokens * heads.qkv_columns(), s.tokens * s.hidden + 3 * num_tokens * mlp);
  };
  const std::int64_t saved = beside_middle(s.tokens) - beside_middle(4);
  BOOST_TEST(is_about(full->workspace_bytes() - tiled->workspace_bytes(), saved));
  // Of what is cut, each rank of tp keeps its part.
  const std::int64_t tp = mesh.place.size(Axis::tp);
  const auto cut_with = [&](const model::ActivationPolicy& policy) {
    return Stand(config, mesh, model::all_parameters, {}, policy, Tokens::cut).activation_bytes();
  };
  const std::int64_t stream = num_layers * 2 * input + last, rest = products + followers - input;
  BOOST_TEST(is_about(cut_with({}), s.tokens * (num_layers * rest + stream / tp)));
  BOOST_TEST(is_about(cut_with({.checkpointing = Checkpointing::full}), s.tokens * (num_layers * input + last) / tp));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::test
