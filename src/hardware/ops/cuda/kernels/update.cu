// SPDX-License-Identifier: Apache-2.0
// A step of an optimizer that treats elements alone, one pass over memory.
#include "ops/cuda/kernels/run.hpp"

#include "ops/cuda/elementwise.cuh"
#include "ops/cuda/random_rounding.cuh"
#include "ops/random_bits.hpp"
#include "ops/views/update.hpp"

namespace sft::ops::cuda {
namespace {

struct Step : UpdateFactors {
  View parameters{};                ///< a row of float32 or bf16, as all others
  View state[max_update_states]{};  ///< those of the rule; all float32 or all bf16
  ConstView gradients{};            ///< float32
  View copy{};                      ///< bf16, of float32 parameters; without data: none
};

/// Where the numbers of the elements lie in the logical tensor.
struct Numbering {
  std::uint64_t key;
  std::int64_t first_index, num_columns, row_stride, begin;  ///< begin: of the first element of the views
};

/// Moves, for each element, parameter and state twice, the gradient, and 2 bytes of the copy: with AdamW 28 or 30 bytes
/// in float32, 16 in bf16.
template <class Rule, class Parameter, class State, bool has_copy, int N>
struct Update {
  static constexpr int num_states = Rule::num_states;
  static constexpr bool is_rounded =
      sizeof(Parameter) == sizeof(Bf16) || (num_states > 0 && sizeof(State) == sizeof(Bf16));
  static constexpr int unroll = 1;
  struct Registers {
    float parameter[N], gradient[N], state[max_update_states][N];
  };
  Rows<Parameter> parameters;
  Rows<State> state[max_update_states];
  Rows<const float> gradients;
  Rows<Bf16> copy;
  Rule rule;
  float gradient_scale;
  Numbering numbering;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::load(r.gradient, gradients.at(row, column));
    cuda::load(r.parameter, parameters.at(row, column));
#pragma unroll
    for (int s = 0; s < num_states; ++s) cuda::load(r.state[s], state[s].at(row, column));
  }

  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    float new_parameters[N], new_states[max_update_states][N];
    // Where the first element lies in the logical tensor; the others follow, from row to row.
    std::int64_t logical_row = 0, logical_column = 0;
    if constexpr (is_rounded) {
      const std::int64_t number = numbering.begin + row * gradients.stride + column;
      logical_row = number / numbering.num_columns;
      logical_column = number - logical_row * numbering.num_columns;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      float parameter = r.parameter[i];
      float states[max_update_states] = {};
#pragma unroll
      for (int s = 0; s < num_states; ++s) states[s] = r.state[s][i];
      rule.update(parameter, r.gradient[i] * gradient_scale, states, [](float x) { return sqrtf(x); });
      std::uint64_t bits = 0;
      if constexpr (is_rounded) {
        bits = squares(numbering.key, static_cast<std::uint64_t>(numbering.first_index +
                                                                 logical_row * numbering.row_stride + logical_column));
        if (++logical_column == numbering.num_columns) {
          logical_column = 0;
          ++logical_row;
        }
      }
#pragma unroll
      for (int s = 0; s < num_states; ++s) new_states[s][i] = rounded_at_random<State>(states[s], bits >> (16 * s));
      new_parameters[i] = rounded_at_random<Parameter>(parameter, bits >> 32);
    }
#pragma unroll
    for (int s = 0; s < num_states; ++s) cuda::store(state[s].at(row, column), new_states[s]);
    cuda::store(parameters.at(row, column), new_parameters);
    if constexpr (has_copy) cuda::store(copy.at(row, column), new_parameters);
  }
};

template <class Parameter, class State, bool has_copy, class Rule>
void update_as(const Step& arguments, const Rule& rule, cudaStream_t stream) {
  // The place of what there is not is taken by the parameters, and not used.
  const auto or_parameters = [&](bool exists, const View& view) { return exists ? view : arguments.parameters; };
  by_vectors<vector_size<float>>(
      std::tuple(arguments.gradients, arguments.parameters, or_parameters(Rule::num_states > 0, arguments.state[0]),
                 or_parameters(Rule::num_states > 1, arguments.state[1]), or_parameters(has_copy, arguments.copy)),
      true,
      [&](auto n, std::int64_t num_vectors, std::int64_t per_row, const ConstView& gradients, const View& parameters,
          const View& first, const View& second, const View& copy) {
        constexpr int N = decltype(n)::value;
        const std::int64_t offset =
            static_cast<const float*>(gradients.data) - static_cast<const float*>(arguments.gradients.data);
        const Numbering numbering{arguments.key, arguments.first_index, arguments.num_columns, arguments.row_stride,
                                  arguments.begin + offset};
        run_elementwise<N>("update",
                           Update<Rule, Parameter, State, has_copy, N>{rows_of<Parameter>(parameters),
                                                                       {rows_of<State>(first), rows_of<State>(second)},
                                                                       rows_of<const float>(gradients),
                                                                       rows_of<Bf16>(copy),
                                                                       rule,
                                                                       arguments.gradient_scale,
                                                                       numbering},
                           num_vectors, per_row, stream);
      });
}

}  // namespace

template <>
void run(const ops::Update& op, const Context& context) {
  Step arguments{factors_of(op)};
  arguments.parameters = flat_view_of(op.parameters);
  for (int i = 0; i < max_update_states; ++i) {
    if (!op.state[i].empty()) arguments.state[i] = flat_view_of(op.state[i]);
  }
  arguments.gradients = flat_view_of(op.gradients);
  if (!op.copy.empty()) arguments.copy = flat_view_of(op.copy);
  const cudaStream_t stream = context.stream;
  arguments.rule.visit([&](const auto& rule) {
    with_type(arguments.state[0].is_bf16, [&](auto state_type) {
      using State = typename decltype(state_type)::type;
      if (arguments.parameters.is_bf16) {
        update_as<Bf16, State, false>(arguments, rule, stream);
      } else if (arguments.copy.data != nullptr) {
        update_as<float, State, true>(arguments, rule, stream);
      } else {
        update_as<float, State, false>(arguments, rule, stream);
      }
    });
  });
}

}  // namespace sft::ops::cuda
