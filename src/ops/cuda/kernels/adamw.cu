// SPDX-License-Identifier: Apache-2.0
// AdamW (Loshchilov & Hutter 2019) in the order of operations of torch.optim.AdamW, one pass over memory.
#include "ops/cuda/kernels/adamw.hpp"

#include "ops/cuda/elementwise.cuh"
#include "ops/random_bits.hpp"

namespace sft::ops::cuda {
namespace {

/// x, or x rounded at random by the lowest 16 of `bits` to what T holds exactly.
template <class T>
__device__ __forceinline__ float rounded_at_random(float x, std::uint64_t bits) {
  if constexpr (sizeof(T) == sizeof(float)) {
    return x;
  } else {
    const unsigned sum = __float_as_uint(x) + (static_cast<unsigned>(bits) & 0xffffu);
    return __uint_as_float((x != x ? 0x7fc00000u : sum) & 0xffff0000u);
  }
}

/// The numbers of an AdamW step that all elements share.
struct Step {
  float decay, one_minus_beta1, beta2, one_minus_beta2, inverse_sqrt_bias_correction2, epsilon, step_size,
      gradient_scale;
  std::uint64_t key;
  std::int64_t first_index, num_columns, row_stride, begin;  ///< begin: of the first element of the views
};

/// Moves, for each element, parameter and moments twice, the gradient, and 2 bytes of the copy: 28 or 30 bytes in
/// float32, 16 in bf16.
template <class Parameter, class Moment, bool has_copy, int N>
struct Update {
  static constexpr bool is_rounded = sizeof(Parameter) == sizeof(Bf16) || sizeof(Moment) == sizeof(Bf16);
  static constexpr int unroll = 1;
  struct Registers {
    float parameter[N], gradient[N], first[N], second[N];
  };
  Rows<Parameter> parameters;
  Rows<Moment> exp_avg, exp_avg_sq;
  Rows<const float> gradients;
  Rows<Bf16> copy;
  Step step;

  __device__ __forceinline__ void load(Registers& r, std::int64_t row, std::int64_t column) const {
    cuda::load(r.gradient, gradients.at(row, column));
    cuda::load(r.parameter, parameters.at(row, column));
    cuda::load(r.first, exp_avg.at(row, column));
    cuda::load(r.second, exp_avg_sq.at(row, column));
  }

  __device__ __forceinline__ void store(const Registers& r, std::int64_t row, std::int64_t column) const {
    float new_parameters[N], new_firsts[N], new_seconds[N];
    // Where the first element lies in the logical tensor; the others follow, from row to row.
    std::int64_t logical_row = 0, logical_column = 0;
    if constexpr (is_rounded) {
      const std::int64_t number = step.begin + row * gradients.stride + column;
      logical_row = number / step.num_columns;
      logical_column = number - logical_row * step.num_columns;
    }
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const float gradient = r.gradient[i] * step.gradient_scale;
      const float first = r.first[i] + (gradient - r.first[i]) * step.one_minus_beta1;
      const float second = r.second[i] * step.beta2 + gradient * gradient * step.one_minus_beta2;
      const float denominator = sqrtf(second) * step.inverse_sqrt_bias_correction2 + step.epsilon;
      const float parameter = r.parameter[i] * step.decay - step.step_size * (first / denominator);
      std::uint64_t bits = 0;
      if constexpr (is_rounded) {
        bits = squares(step.key,
                       static_cast<std::uint64_t>(step.first_index + logical_row * step.row_stride + logical_column));
        if (++logical_column == step.num_columns) {
          logical_column = 0;
          ++logical_row;
        }
      }
      new_firsts[i] = rounded_at_random<Moment>(first, bits);
      new_seconds[i] = rounded_at_random<Moment>(second, bits >> 16);
      new_parameters[i] = rounded_at_random<Parameter>(parameter, bits >> 32);
    }
    cuda::store(exp_avg.at(row, column), new_firsts);
    cuda::store(exp_avg_sq.at(row, column), new_seconds);
    cuda::store(parameters.at(row, column), new_parameters);
    if constexpr (has_copy) cuda::store(copy.at(row, column), new_parameters);
  }
};

template <class Parameter, class Moment, bool has_copy>
void update(const AdamWArguments& arguments, cudaStream_t stream) {
  // Without a copy its place is taken by the gradients, and not used.
  const View& copy = has_copy ? arguments.copy : arguments.gradients;
  by_vectors<vector_size<float>, 5>(
      {arguments.gradients, arguments.parameters, arguments.exp_avg, arguments.exp_avg_sq, copy}, true,
      [&](auto n, const auto& views, std::int64_t num_vectors, std::int64_t per_row) {
        constexpr int N = decltype(n)::value;
        const std::int64_t offset =
            static_cast<const float*>(views[0].data) - static_cast<const float*>(arguments.gradients.data);
        const Step step{arguments.decay,
                        arguments.one_minus_beta1,
                        arguments.beta2,
                        arguments.one_minus_beta2,
                        arguments.inverse_sqrt_bias_correction2,
                        arguments.epsilon,
                        arguments.step_size,
                        arguments.gradient_scale,
                        arguments.key,
                        arguments.first_index,
                        arguments.num_columns,
                        arguments.row_stride,
                        arguments.begin + offset};
        run_elementwise<N>("adamw",
                           Update<Parameter, Moment, has_copy, N>{
                               rows_of<Parameter>(views[1]), rows_of<Moment>(views[2]), rows_of<Moment>(views[3]),
                               rows_of<const float>(views[0]), rows_of<Bf16>(views[4]), step},
                           num_vectors, per_row, stream);
      });
}

}  // namespace

void adamw(const AdamWArguments& arguments, cudaStream_t stream) {
  with_type(arguments.exp_avg.is_bf16, [&](auto moment_type) {
    using Moment = typename decltype(moment_type)::type;
    if (arguments.parameters.is_bf16) {
      update<Bf16, Moment, false>(arguments, stream);
    } else if (arguments.copy.data != nullptr) {
      update<float, Moment, true>(arguments, stream);
    } else {
      update<float, Moment, false>(arguments, stream);
    }
  });
}

}  // namespace sft::ops::cuda
