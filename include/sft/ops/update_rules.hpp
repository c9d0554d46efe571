// SPDX-License-Identifier: Apache-2.0
#pragma once
// The optimizers that treat elements alone: of each its hyper-parameters in a step, and the arithmetic of an element,
// written once for the kernels of all processors. A new one is a struct here and a name in UpdateRuleList. Without
// headers that have inline functions, because kernels of every instruction set include it
// (src/hardware/ops/cpu/kernels.hpp); constexpr so that GPU code may call them.

namespace sft::ops {

inline constexpr int max_update_states = 2;

// A rule has a Step: constants of its arithmetic in float32, num_states numbers of state an element, and update(),
// which changes these and the parameter. `root` is the square root of the processor.

/// AdamW (Loshchilov & Hutter 2019), in the order of operations of torch.optim.AdamW. State: exp_avg, exp_avg_sq.
struct AdamW {
  double learning_rate, beta1, beta2, epsilon, weight_decay;
  double bias_correction1, bias_correction2;  ///< 1 - beta^step

  struct Step {
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
  [[nodiscard]] Step step() const {
    return {static_cast<float>(1.0 - learning_rate * weight_decay),
            static_cast<float>(1.0 - beta1),
            static_cast<float>(beta2),
            static_cast<float>(1.0 - beta2),
            static_cast<float>(1.0 / __builtin_sqrt(bias_correction2)),
            static_cast<float>(epsilon),
            static_cast<float>(learning_rate / bias_correction1)};
  }
};

/// Lion (Chen et al. 2023, algorithm 2). State: exp_avg.
struct Lion {
  double learning_rate, beta1, beta2, weight_decay;

  struct Step {
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
  [[nodiscard]] Step step() const {
    return {static_cast<float>(1.0 - learning_rate * weight_decay), static_cast<float>(1.0 - beta1),
            static_cast<float>(1.0 - beta2), static_cast<float>(learning_rate)};
  }
};

/// torch.optim.SGD without momentum, as transformers makes it: weight_decay * parameter is added to the gradient. No
/// state.
struct Sgd {
  double learning_rate, weight_decay;

  struct Step {
    static constexpr int num_states = 0;
    float learning_rate = 0, weight_decay = 0;

    template <class Root>
    constexpr void update(float& parameter, float gradient, float (&)[max_update_states], Root /*root*/) const {
      parameter = parameter - learning_rate * (gradient + weight_decay * parameter);
    }
  };
  [[nodiscard]] Step step() const { return {static_cast<float>(learning_rate), static_cast<float>(weight_decay)}; }
};

/// The momentum of torch.optim.Muon: the direction of a step overwrites the parameters, for which the caller gives
/// memory of its own, or the gradients themselves. State: the mean of the gradients.
struct Momentum {
  double momentum;
  bool nesterov;

  struct Step {
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
  [[nodiscard]] Step step() const {
    return {static_cast<float>(momentum), static_cast<float>(1.0 - momentum), nesterov};
  }
};

template <template <class...> class List>
using UpdateRuleList = List<AdamW, Lion, Sgd, Momentum>;

}  // namespace sft::ops
