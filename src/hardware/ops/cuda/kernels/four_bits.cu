// SPDX-License-Identifier: Apache-2.0
// Numbers of matrices in 4 bits; see sft/ops/calls/four_bits.hpp.
#include "ops/cuda/kernels/run.hpp"

#include "ops/cuda/elementwise.cuh"
#include "sft/core/block_codes.hpp"
#include "sft/ops/calls/four_bits.hpp"

namespace sft::ops::cuda {
namespace {

using sft::cuda::launch;
using sft::cuda::shared_memory;

constexpr unsigned threads = 256;
constexpr int thread_elements = 8;
constexpr int block_threads = static_cast<int>(four_bit_block) / thread_elements;

/// The numbers of codes, and of codes of scales.
struct Values {
  float numbers[16], scales[256];
};

Values values_of(const float* numbers) {
  static constexpr BlockCode code = make_block_code(true);
  Values values;
  for (int i = 0; i < 16; ++i) values.numbers[i] = numbers[i];
  for (int i = 0; i < 256; ++i) values.scales[i] = code.values[i];
  return values;
}

/// A thread makes 8 neighbours of 4 bytes. Moves the records and out.
template <class T>
__global__ void __launch_bounds__(threads)
    read_four_bits_kernel(T* out, std::int64_t num_blocks, std::int64_t out_row_blocks, const std::uint8_t* records,
                          std::int64_t record_bytes, Values values, const float* nested, std::int64_t first_block,
                          std::int64_t row_blocks) {
  auto* numbers = shared_memory<float>();  // (16), and behind it
  float* const scales = numbers + 16;      // (256)
  if (threadIdx.x < 16) numbers[threadIdx.x] = values.numbers[threadIdx.x];
  if (nested != nullptr) scales[threadIdx.x] = values.scales[threadIdx.x];
  __syncthreads();
  const std::int64_t thread = static_cast<std::int64_t>(blockIdx.x) * threads + threadIdx.x;
  const std::int64_t block = thread / block_threads;
  const int part = static_cast<int>(thread % block_threads);
  if (block >= num_blocks) return;
  const std::uint8_t* record = records + block * record_bytes;
  const std::uint8_t* stored = record + four_bit_code_bytes;
  float scale = 0.0f;
  if (nested == nullptr) {
    scale = __uint_as_float(static_cast<unsigned>(stored[0]) | static_cast<unsigned>(stored[1]) << 8U |
                            static_cast<unsigned>(stored[2]) << 16U | static_cast<unsigned>(stored[3]) << 24U);
  } else {
    const std::int64_t number = first_block + block / out_row_blocks * row_blocks + block % out_row_blocks;
    scale = __fadd_rn(__fmul_rn(scales[stored[0]], nested[1 + number / nested_scale_block]), nested[0]);
  }
  float result[thread_elements];
#pragma unroll
  for (int i = 0; i < thread_elements / 2; ++i) {
    const unsigned codes = record[part * (thread_elements / 2) + i];
    result[2 * i] = numbers[codes >> 4U] * scale;
    result[2 * i + 1] = numbers[codes & 15U] * scale;
  }
  cuda::store(out + block * four_bit_block + part * thread_elements, result);
}

}  // namespace

template <>
void run(const ops::ReadFourBits& op, const Context& context) {
  const View out = view_of(op.out);
  const float* const nested = op.form.is_nested ? floats_of(op.nested) : nullptr;
  const cudaStream_t stream = context.stream;
  if (is_empty(out)) return;
  const std::int64_t row_blocks = out.columns / four_bit_block, num_blocks = out.rows * row_blocks;
  const std::int64_t num_threads = num_blocks * block_threads;
  with_type(out.is_bf16, [&](auto type) {
    using T = typename decltype(type)::type;
    launch("read_four_bits", read_four_bits_kernel<T>,
           dim3(static_cast<unsigned>((num_threads + threads - 1) / threads)), dim3(threads), sizeof(Values), stream,
           static_cast<T*>(out.data), num_blocks, row_blocks, op.records.as<std::uint8_t>(), op.form.record_bytes(),
           values_of(op.form.values()), nested, op.first_block, op.row_blocks);
  });
}

}  // namespace sft::ops::cuda
