// SPDX-License-Identifier: Apache-2.0
#pragma once
// The arithmetic of one element of each optimizer that treats elements alone: written once, for the kernels of all
// processors. A new one is a struct here and a member of UpdateRules. Plain C++17 without headers that have inline
// functions, as kernel_arguments.hpp; constexpr so that GPU code may call them.

namespace sft::ops {

inline constexpr int max_update_states = 2;

// Each has num_states numbers of state an element, and updates these and the parameter, in float32. `root` is the
// square root of the processor.

/// AdamW (Loshchilov & Hutter 2019), in the order of operations of torch.optim.AdamW.
struct AdamWRule {
  static constexpr int num_states = 2;
  float decay = 1;  ///< 1 - learning_rate * weight_decay
  float one_minus_beta1 = 0, beta2 = 0, one_minus_beta2 = 0;
  float inverse_sqrt_bias_correction2 = 1, epsilon = 0, step_size = 0;

  template <class Root>
  constexpr void update(float& parameter, float gradient, float (&state)[max_update_states], Root root) const {
    const float first = state[0] + (gradient - state[0]) * one_minus_beta1;
    const float second = state[1] * beta2 + gradient * gradient * one_minus_beta2;
    const float denominator = root(second) * inverse_sqrt_bias_correction2 + epsilon;
    parameter = parameter * decay - step_size * (first / denominator);
    state[0] = first;
    state[1] = second;
  }
};

/// Lion (Chen et al. 2023, algorithm 2).
struct LionRule {
  static constexpr int num_states = 1;
  float decay = 1;  ///< 1 - learning_rate * weight_decay
  float one_minus_beta1 = 0, one_minus_beta2 = 0, learning_rate = 0;

  template <class Root>
  constexpr void update(float& parameter, float gradient, float (&state)[max_update_states], Root /*root*/) const {
    const float direction = state[0] + (gradient - state[0]) * one_minus_beta1;
    const float sign = direction > 0 ? 1.0f : (direction < 0 ? -1.0f : 0.0f);
    parameter = parameter * decay - learning_rate * sign;
    state[0] = state[0] + (gradient - state[0]) * one_minus_beta2;
  }
};

/// torch.optim.SGD without momentum, as transformers makes it: what decays is added to the gradient.
struct SgdRule {
  static constexpr int num_states = 0;
  float learning_rate = 0, weight_decay = 0;

  template <class Root>
  constexpr void update(float& parameter, float gradient, float (&)[max_update_states], Root /*root*/) const {
    parameter = parameter - learning_rate * (gradient + weight_decay * parameter);
  }
};

/// The momentum of torch.optim.Muon: the direction of a step takes the place of the parameter.
struct MomentumRule {
  static constexpr int num_states = 1;
  float momentum = 0, one_minus_momentum = 1;
  bool nesterov = false;

  template <class Root>
  constexpr void update(float& direction, float gradient, float (&state)[max_update_states], Root /*root*/) const {
    const float mean = state[0] + (gradient - state[0]) * one_minus_momentum;
    direction = nesterov ? gradient + (mean - gradient) * momentum : mean;
    state[0] = mean;
  }
};

/// One of them, for a table of functions.
struct UpdateRules {
  enum class Kind { adamw, lion, sgd, momentum } kind = Kind::adamw;
  AdamWRule adamw{};
  LionRule lion{};
  SgdRule sgd{};
  MomentumRule momentum{};
};

/// Calls f with the rule that is meant.
template <class F>
inline void with_rule(const UpdateRules& rules, const F& f) {
  switch (rules.kind) {
    case UpdateRules::Kind::adamw:
      return f(rules.adamw);
    case UpdateRules::Kind::lion:
      return f(rules.lion);
    case UpdateRules::Kind::sgd:
      return f(rules.sgd);
    case UpdateRules::Kind::momentum:
      return f(rules.momentum);
  }
}

}  // namespace sft::ops
