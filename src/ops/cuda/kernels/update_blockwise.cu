// SPDX-License-Identifier: Apache-2.0
// A step of AdamW with state in 8 bits: a warp for each block, which reads everything once.
#include "ops/cuda/kernels/kernels.hpp"

#include "sft/core/block_codes.hpp"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/random_rounding.cuh"
#include "ops/cuda/vector.cuh"
#include "ops/cuda/warp.cuh"
#include "ops/random_bits.hpp"

namespace sft::ops::cuda {
namespace {

using sft::cuda::launch;
using sft::cuda::shared_memory;

constexpr unsigned threads = 256, warps = threads / warp_size;
constexpr int lane_elements = static_cast<int>(dynamic_block_size / warp_size);
constexpr unsigned max_grid = 4096;  ///< the codes are read once for each of them

/// The numbers of the codes, with a sign and without.
struct CodeValues {
  float of[2][256];
};

CodeValues code_values() {
  static constexpr BlockCode codes[2] = {make_block_code(true), make_block_code(false)};
  CodeValues values;
  for (int i = 0; i < 2; ++i) {
    for (int code = 0; code < 256; ++code) values.of[i][code] = codes[i].values[code];
  }
  return values;
}

/// Numbers and borders of a code, in shared memory.
struct SharedCode {
  float *values, *borders;
};

__device__ __forceinline__ SharedCode read_code(float* shared, const float* values) {
  const unsigned code = threadIdx.x, next = code < 255 ? code + 1 : code;
  shared[code] = values[code];
  shared[256 + code] = (values[code] + values[next]) * 0.5f;
  return {shared, shared + 256};
}

/// Where in the views element `offset` of a block is; -1: not there.
__device__ __forceinline__ std::int64_t place_of(const BlockwiseArguments& step, std::int64_t block, int offset) {
  if (!step.blocks.is_cut) {
    const std::int64_t i = block * dynamic_block_size + offset;
    return i < step.size ? i : -1;
  }
  const std::int64_t element = block * dynamic_block_size + offset - step.first_index;
  if (element < 0) return -1;
  const std::int64_t row = step.begin + step.size <= step.num_columns ? 0 : element / step.row_stride;
  const std::int64_t column = element - row * step.row_stride, i = row * step.num_columns + column - step.begin;
  return column < step.num_columns && i >= 0 && i < step.size ? i : -1;
}

/// The number of element i of the views in the logical tensor.
__host__ __device__ inline std::int64_t number_of(const BlockwiseArguments& step, std::int64_t i) {
  const std::int64_t element = step.begin + i, row = element / step.num_columns;
  return step.first_index + row * step.row_stride + element - row * step.num_columns;
}

/// Blocks [begin, end). Moves, for each element, two codes and the parameter twice, the gradient, and 2 bytes of the
/// copy: 16 or 18 bytes in float32. Without `stores` it raises the new scales, from the gradient and the codes.
template <class Parameter, bool has_copy, bool stores>
__global__ void __launch_bounds__(threads)
    blocks_kernel(BlockwiseArguments step, CodeValues values, std::int64_t begin, std::int64_t end) {
  const AdamW::Step& rule = step.rule;
  auto* shared = shared_memory<float>();
  const SharedCode first = read_code(shared, values.of[0]), second = read_code(shared + 512, values.of[1]);
  __syncthreads();
  const unsigned lane = threadIdx.x % warp_size;
  for (std::int64_t block = begin + blockIdx.x * warps + threadIdx.x / warp_size; block < end;
       block += static_cast<std::int64_t>(gridDim.x) * warps) {
    const std::int64_t scale = block - step.blocks.first_block;
    const float first_scale = step.blocks.old_scales[0][scale], second_scale = step.blocks.old_scales[1][scale];
    float moments[2][lane_elements];
    float first_largest = 0, second_largest = 0;
#pragma unroll
    for (int j = 0; j < lane_elements; ++j) {
      moments[0][j] = moments[1][j] = 0;
      const int offset = j * static_cast<int>(warp_size) + static_cast<int>(lane);
      const std::int64_t i = place_of(step, block, offset);
      if (i < 0) continue;
      float state[max_update_states] = {first.values[step.codes[0][i]] * first_scale,
                                        second.values[step.codes[1][i]] * second_scale};
      auto* at = static_cast<Parameter*>(step.parameters) + i;
      float parameter[1] = {};
      if constexpr (stores) load(parameter, at);
      rule.update(parameter[0], step.gradients[i] * step.gradient_scale, state,
                              [](float x) { return sqrtf(x); });
      moments[0][j] = state[0];
      moments[1][j] = state[1];
      first_largest = fmaxf(first_largest, fabsf(state[0]));
      second_largest = fmaxf(second_largest, state[1]);
      if constexpr (stores) {
        if constexpr (sizeof(Parameter) == sizeof(Bf16)) {
          const std::uint64_t bits = squares(step.key, static_cast<std::uint64_t>(number_of(step, i)));
          parameter[0] = rounded_at_random<Parameter>(parameter[0], bits >> 32);
        }
        store(at, parameter);
        if constexpr (has_copy) store(static_cast<Bf16*>(step.copy) + i, parameter);
      }
    }
    first_largest = warp_max(first_largest);
    second_largest = warp_max(second_largest);
    __syncwarp();  // all have read the old scales, which may be the new ones
    float* const new_scales[2] = {step.blocks.new_scales[0] + scale, step.blocks.new_scales[1] + scale};
    if constexpr (!stores) {
      if (lane == 0) {
        *new_scales[0] = fmaxf(*new_scales[0], first_largest);
        *new_scales[1] = fmaxf(*new_scales[1], second_largest);
      }
    } else {
      if (step.blocks.is_cut) {
        first_largest = *new_scales[0];
        second_largest = *new_scales[1];
      } else if (lane == 0) {
        *new_scales[0] = first_largest;
        *new_scales[1] = second_largest;
      }
#pragma unroll
      for (int j = 0; j < lane_elements; ++j) {
        const std::int64_t i = place_of(step, block, j * static_cast<int>(warp_size) + static_cast<int>(lane));
        if (i < 0) continue;
        const float x = moments[0][j];
        const int code = nearest_code(first.borders, first_largest > 0 ? x / first_largest : 0.0f);
        step.codes[0][i] = static_cast<std::uint8_t>(x < 0 && code == signed_zero_code ? code - 1 : code);
        step.codes[1][i] = static_cast<std::uint8_t>(
            nearest_code(second.borders, second_largest > 0 ? moments[1][j] / second_largest : 0.0f));
      }
    }
  }
}

template <class Parameter, bool has_copy, bool stores>
void run(const char* name, const BlockwiseArguments& step, cudaStream_t stream) {
  if (step.size == 0) return;
  std::int64_t begin = 0, end = (step.size + dynamic_block_size - 1) / dynamic_block_size;
  if (step.blocks.is_cut) {
    begin = number_of(step, 0) / dynamic_block_size;
    end = number_of(step, step.size - 1) / dynamic_block_size + 1;
  }
  const std::int64_t grid = (end - begin + warps - 1) / warps;
  launch(name, blocks_kernel<Parameter, has_copy, stores>,
         dim3(grid < max_grid ? static_cast<unsigned>(grid) : max_grid), dim3(threads), 1024 * sizeof(float), stream,
         step, code_values(), begin, end);
}

}  // namespace

void update_blockwise(const BlockwiseArguments& step, cudaStream_t stream) {
  if (step.has_bf16_parameters) return run<Bf16, false, true>("update_blockwise", step, stream);
  if (step.copy != nullptr) return run<float, true, true>("update_blockwise", step, stream);
  run<float, false, true>("update_blockwise", step, stream);
}

void raise_scales(const BlockwiseArguments& step, cudaStream_t stream) {
  run<float, false, false>("raise_scales", step, stream);
}

}  // namespace sft::ops::cuda
