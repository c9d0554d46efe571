// SPDX-License-Identifier: Apache-2.0
// A step of AdamW with state in 8 bits: a warp for each block, which reads everything once.
#include "ops/cuda/kernels/run.hpp"

#include "ops/cuda/code_search.cuh"
#include "ops/cuda/launch.cuh"
#include "ops/cuda/random_rounding.cuh"
#include "ops/cuda/vector.cuh"
#include "ops/cuda/warp.cuh"
#include "ops/random_bits.hpp"
#include "ops/views/update.hpp"
#include "sft/core/block_codes.hpp"

namespace sft::ops::cuda {
namespace {

struct Step : UpdateFactors {
  BlockFactors blocks{};
  void* parameters = nullptr;  ///< float32 or bf16
  bool has_bf16_parameters = false;
  const float* gradients = nullptr;
  void* copy = nullptr;                      ///< bf16, of float32 parameters; may be null
  std::uint8_t* codes[max_update_states]{};  ///< of both moments
  std::int64_t size = 0;                     ///< elements of the views
};

using sft::cuda::launch;
using sft::cuda::shared_memory;

constexpr unsigned threads = 256, warps = threads / warp_size;
constexpr int lane_elements = static_cast<int>(dynamic_block_size / warp_size);
constexpr unsigned max_grid = 1024;  ///< each makes its tables

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

/// In shared memory, of both codes: their numbers, the borders between these, and what finds a code.
struct Tables {
  float values[2][256], borders[2][256];
  std::uint32_t with_sign[CodeSearch<true>::num_entries], without[CodeSearch<false>::num_entries];
};

/// All threads of the block; they may read what they find.
template <bool finds>
__device__ __forceinline__ void make_tables(Tables& tables, const CodeValues& values) {
  const unsigned code = threadIdx.x, next = code < 255 ? code + 1 : code;
#pragma unroll
  for (int i = 0; i < 2; ++i) {
    tables.values[i][code] = values.of[i][code];
    tables.borders[i][code] = (values.of[i][code] + values.of[i][next]) * 0.5f;
  }
  __syncthreads();
  if constexpr (finds) {
    for (unsigned i = threadIdx.x; i < CodeSearch<true>::num_entries; i += threads) {
      tables.with_sign[i] = CodeSearch<true>::make_entry(i, tables.borders[0]);
    }
    for (unsigned i = threadIdx.x; i < CodeSearch<false>::num_entries; i += threads) {
      tables.without[i] = CodeSearch<false>::make_entry(i, tables.borders[1]);
    }
    __syncthreads();
  }
}

/// The code of x, at most `largest` and not 0 where x is not: what is below zero is never coded as zero.
__device__ __forceinline__ unsigned code_with_sign(const Tables& tables, float x, const CodeDivisor& largest,
                                                   unsigned code_of_nan) {
  const float quotient = largest.of(x);
  const bool is_negative = x < 0;
  int distance = CodeSearch<true>::distance(tables.with_sign, fminf(fabsf(quotient), 1.0f), is_negative);
  if (is_negative) distance = -(distance < 1 ? 1 : distance > signed_zero_code ? signed_zero_code : distance);
  return quotient == quotient ? static_cast<unsigned>(signed_zero_code + distance) : code_of_nan;
}

__device__ __forceinline__ unsigned code_without(const Tables& tables, float x, const CodeDivisor& largest) {
  const float quotient = largest.of(x);
  const int code = CodeSearch<false>::distance(tables.without, fminf(fabsf(quotient), 1.0f), false);
  return quotient > 0 ? static_cast<unsigned>(code) : 0;
}

/// N neighbouring codes in a word.
template <int N>
__device__ __forceinline__ unsigned load_codes(const std::uint8_t* at) {
  if constexpr (N == 1) {
    return *at;
  } else {
    static_assert(N == 4, "a word");
    return *reinterpret_cast<const unsigned*>(at);
  }
}
template <int N>
__device__ __forceinline__ void store_codes(std::uint8_t* at, unsigned codes) {
  if constexpr (N == 1) {
    *at = static_cast<std::uint8_t>(codes);
  } else {
    *reinterpret_cast<unsigned*>(at) = codes;
  }
}

/// Where in the views element `offset` of a block is; -1: not there.
__device__ __forceinline__ std::int64_t place_of(const Step& step, std::int64_t block, int offset) {
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
__host__ __device__ inline std::int64_t number_of(const Step& step, std::int64_t i) {
  const std::int64_t element = step.begin + i, row = element / step.num_columns;
  return step.first_index + row * step.row_stride + element - row * step.num_columns;
}

/// Blocks [begin, end), of which a lane has vectors of N elements, a warp's side by side; with N > 1 they are whole and
/// the views' own. Moves, for each element, two codes and the parameter twice, the gradient, and 2 bytes of the copy:
/// 16 or 18 bytes in float32. Without `stores` it raises the new scales, from the gradient and the codes.
template <class Parameter, bool has_copy, bool stores, int N>
__global__ void __launch_bounds__(threads, N > 1 && sizeof(Parameter) == sizeof(float) ? 4 : 2)
    blocks_kernel(Step step, CodeValues values, std::int64_t begin, std::int64_t end) {
  constexpr int num_vectors = lane_elements / N;
  const AdamW::Step& rule = step.rule;
  auto& tables = *shared_memory<Tables>();
  make_tables<stores>(tables, values);
  const unsigned lane = threadIdx.x % warp_size;
  const auto place = [&](std::int64_t block, int v) {
    const int offset = (v * static_cast<int>(warp_size) + static_cast<int>(lane)) * N;
    return N > 1 ? block * dynamic_block_size + offset : place_of(step, block, offset);
  };
  for (std::int64_t block = begin + blockIdx.x * warps + threadIdx.x / warp_size; block < end;
       block += static_cast<std::int64_t>(gridDim.x) * warps) {
    const std::int64_t scale = block - step.blocks.first_block;
    const float first_scale = step.blocks.old_scales[0][scale], second_scale = step.blocks.old_scales[1][scale];
    unsigned codes[2][num_vectors];
    float gradients[num_vectors][N], parameters[num_vectors][N] = {};
#pragma unroll
    for (int v = 0; v < num_vectors; ++v) {
      const std::int64_t i = place(block, v);
      if (i < 0) continue;
      codes[0][v] = load_codes<N>(step.codes[0] + i);
      codes[1][v] = load_codes<N>(step.codes[1] + i);
      load(gradients[v], step.gradients + i);
      if constexpr (stores) load(parameters[v], static_cast<const Parameter*>(step.parameters) + i);
    }
    float moments[2][lane_elements];
    float first_largest = 0, second_largest = 0;
#pragma unroll
    for (int v = 0; v < num_vectors; ++v) {
      const std::int64_t i = place(block, v);
      if (i < 0) continue;
#pragma unroll
      for (int n = 0; n < N; ++n) {
        float state[max_update_states] = {tables.values[0][codes[0][v] >> 8 * n & 0xffu] * first_scale,
                                          tables.values[1][codes[1][v] >> 8 * n & 0xffu] * second_scale};
        rule.update(parameters[v][n], gradients[v][n] * step.gradient_scale, state, [](float x) { return sqrtf(x); });
        moments[0][v * N + n] = state[0];
        moments[1][v * N + n] = state[1];
        first_largest = fmaxf(first_largest, fabsf(state[0]));
        second_largest = fmaxf(second_largest, state[1]);
        if constexpr (stores && sizeof(Parameter) == sizeof(Bf16)) {
          const std::uint64_t bits = squares(step.key, static_cast<std::uint64_t>(number_of(step, i + n)));
          parameters[v][n] = rounded_at_random<Parameter>(parameters[v][n], bits >> 32);
        }
      }
      if constexpr (stores) {
        store(static_cast<Parameter*>(step.parameters) + i, parameters[v]);
        if constexpr (has_copy) store(static_cast<Bf16*>(step.copy) + i, parameters[v]);
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
      const CodeDivisor by_first(first_largest), by_second(second_largest);
      const unsigned code_of_nan = first_largest > 0 ? 0 : signed_zero_code;
#pragma unroll
      for (int v = 0; v < num_vectors; ++v) {
        const std::int64_t i = place(block, v);
        if (i < 0) continue;
        unsigned words[2] = {};
#pragma unroll
        for (int n = 0; n < N; ++n) {
          words[0] |= code_with_sign(tables, moments[0][v * N + n], by_first, code_of_nan) << 8 * n;
          words[1] |= code_without(tables, moments[1][v * N + n], by_second) << 8 * n;
        }
        store_codes<N>(step.codes[0] + i, words[0]);
        store_codes<N>(step.codes[1] + i, words[1]);
      }
    }
  }
}

Step step_of(const BlockwiseUpdate& op) {
  Step step{factors_of(op.update), block_factors_of(op)};
  step.parameters = flat_view_of(op.update.parameters).data;
  step.has_bf16_parameters = op.update.parameters.dtype == DType::bf16;
  step.gradients = floats_of(op.update.gradients);
  step.copy = op.update.copy.data;
  for (int i = 0; i < max_update_states; ++i) step.codes[i] = op.update.state[i].as<std::uint8_t>();
  step.size = op.update.gradients.num_elements();
  return step;
}

/// Whether four neighbours from every fourth element on may be accessed together.
bool is_aligned(const Step& step) {
  const auto begins_at = [](const void* data, std::uintptr_t multiple) {
    return reinterpret_cast<std::uintptr_t>(data) % multiple == 0;
  };
  return begins_at(step.gradients, 16) && begins_at(step.parameters, step.has_bf16_parameters ? 8 : 16) &&
         begins_at(step.copy, 8) && begins_at(step.codes[0], 4) && begins_at(step.codes[1], 4);
}

template <class Parameter, bool has_copy, bool stores, int N>
void run_blocks(const char* name, const Step& step, std::int64_t begin, std::int64_t end, cudaStream_t stream) {
  if (begin == end) return;
  const std::int64_t grid = (end - begin + warps - 1) / warps;
  launch(name, blocks_kernel<Parameter, has_copy, stores, N>,
         dim3(grid < max_grid ? static_cast<unsigned>(grid) : max_grid), dim3(threads), sizeof(Tables), stream, step,
         code_values(), begin, end);
}

template <class Parameter, bool has_copy, bool stores>
void run_all(const char* name, const Step& step, cudaStream_t stream) {
  if (step.size == 0) return;
  if (step.blocks.is_cut) {
    return run_blocks<Parameter, has_copy, stores, 1>(name, step, number_of(step, 0) / dynamic_block_size,
                                                      number_of(step, step.size - 1) / dynamic_block_size + 1, stream);
  }
  const std::int64_t end = (step.size + dynamic_block_size - 1) / dynamic_block_size,
                     whole = is_aligned(step) ? step.size / dynamic_block_size : 0;
  run_blocks<Parameter, has_copy, stores, 4>(name, step, 0, whole, stream);
  run_blocks<Parameter, has_copy, stores, 1>(name, step, whole, end, stream);
}

}  // namespace

template <>
void run(const ops::UpdateBlockwise& op, const Context& context) {
  const Step step = step_of(op.step);
  const cudaStream_t stream = context.stream;
  if (step.has_bf16_parameters) return run_all<Bf16, false, true>("update_blockwise", step, stream);
  if (step.copy != nullptr) return run_all<float, true, true>("update_blockwise", step, stream);
  run_all<float, false, true>("update_blockwise", step, stream);
}

template <>
void run(const ops::RaiseScales& op, const Context& context) {
  const Step step = step_of(op.step);
  const cudaStream_t stream = context.stream;
  run_all<float, false, false>("raise_scales", step, stream);
}

}  // namespace sft::ops::cuda
