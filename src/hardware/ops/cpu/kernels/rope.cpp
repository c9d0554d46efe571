// SPDX-License-Identifier: Apache-2.0
// Rotary embedding (Su et al. 2021) in the half-split layout, alone and after RMSNorm of every head (Qwen3).

#include "sft/ops/calls/rope.hpp"
#include "ops/cpu/kernels/math.hpp"
#include "ops/cpu/kernels/norm_row.hpp"
#include "ops/cpu/kernels/run.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

float scale_at(std::int32_t position, const RopeScale& scale) {
  if (scale.beta == 0.0f) return scale.factor;
  const auto lengths = static_cast<double>(1 + position / scale.length);
  return static_cast<float>(scale.factor * (1.0 + scale.beta * __builtin_log(lengths)));
}

/// Turns the pairs (x[j], x[j + half]) by +angle; direction -1 turns back.
template <class To, class From>
void rotate(To* out, const From* in, const float* cosine, const float* sine, std::int64_t half, float direction) {
#pragma omp simd
  for (std::int64_t j = 0; j < half; ++j) {
    const float first = load(in[j]), second = load(in[j + half]);
    const float s = direction * sine[j];
    store(out[j], first * cosine[j] - second * s);
    store(out[j + half], second * cosine[j] + first * s);
  }
}

/// `half` pairs of each head.
void rotate_all(View out, ConstView in, const RopeTable& table, std::int64_t head_dim, float direction) {
  const float *const cosine = floats_of(table.cosine), *const sine = floats_of(table.sine);
  const std::int64_t half = table.cosine.shape[1];
  with_type(in, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (in.rows * in.columns >= min_parallel_elements)
    for (std::int64_t t = 0; t < in.rows; ++t) {
      for (std::int64_t begin = 0; begin < in.columns; begin += head_dim) {
        rotate(row<T>(out, t) + begin, row<T>(in, t) + begin, cosine + t * half, sine + t * half, half, direction);
      }
    }
  });
}

}  // namespace

template <>
void run(const WriteRopeTable& op, Scratch) {
  float *const cosine = floats_of(op.cosine), *const sine = floats_of(op.sine);
  const std::int32_t* const positions = int32s_of(op.positions);
  const double* const inverse_frequencies = doubles_of(op.inverse_frequencies);
  const std::int64_t num_positions = op.positions.num_elements(), half_dim = op.inverse_frequencies.num_elements();
#pragma omp parallel for if (num_positions * half_dim >= min_parallel_elements)
  for (std::int64_t t = 0; t < num_positions; ++t) {
    const double position = positions[t];
    const float factor = scale_at(positions[t], op.scale);
#pragma omp simd
    for (std::int64_t j = 0; j < half_dim; ++j) {
      // Reduced to the nearest quarter turn in double precision; 1.5 * 2^52 rounds.
      const double angle = position * inverse_frequencies[j];
      const double quarter = (angle * 0.63661977236758134 + 6755399441055744.0) - 6755399441055744.0;
      const float rest = static_cast<float>(angle - quarter * 1.5707963267948966);
      sine_cosine_of(static_cast<std::int32_t>(quarter), rest, sine[t * half_dim + j], cosine[t * half_dim + j]);
      sine[t * half_dim + j] *= factor;
      cosine[t * half_dim + j] *= factor;
    }
  }
}

template <>
void run(const RopeForward& op, Scratch) {
  rotate_all(view_of(op.out), view_of(op.in), op.table, op.in.shape[2], 1.0f);
}

template <>
void run(const RopeBackward& op, Scratch) {
  rotate_all(view_of(op.din), view_of(op.dout), op.table, op.din.shape[2], -1.0f);
}

template <>
void run(const NormRopeForward& op, Scratch scratch) {
  ensure_head_dim(op.in);
  const View out = view_of(op.out);
  const ConstView in = view_of(op.in);
  float* const rstd = floats_of(op.rstd);
  const float *const cosine = floats_of(op.table.cosine), *const sine = floats_of(op.table.sine);
  const std::int64_t head_dim = op.in.shape[2];
  const float* const weight = float32_weight(op.weight, scratch);
  const std::int64_t half = head_dim / 2, num_heads = in.columns / head_dim;
  with_type(in, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (in.rows * in.columns >= min_parallel_elements)
    for (std::int64_t t = 0; t < in.rows; ++t) {
      float normed[max_head_dim];
      for (std::int64_t h = 0; h < num_heads; ++h) {
        const T* x = row<T>(in, t) + h * head_dim;
        const float scale = inverse_norm(x, head_dim, op.epsilon);
        rstd[t * num_heads + h] = scale;
        normalize(normed, x, scale, weight, head_dim);
        T* y = row<T>(out, t) + h * head_dim;
        if (cosine == nullptr) {
          for (std::int64_t c = 0; c < head_dim; ++c) store(y[c], normed[c]);
        } else {
          rotate(y, normed, cosine + t * half, sine + t * half, half, 1.0f);
        }
      }
    }
  });
}

template <>
void run(const NormRopeBackward& op, Scratch scratch) {
  ensure_head_dim(op.in);
  const View din = view_of(op.din);
  const ConstView dout = view_of(op.dout), in = view_of(op.in);
  float* const dweight = floats_of(op.dweight);
  const float *const rstd = floats_of(op.rstd), *const cosine = floats_of(op.table.cosine),
                     *const sine = floats_of(op.table.sine);
  const std::int64_t head_dim = op.in.shape[2];
  const float* const weight = float32_weight(op.weight, scratch);
  const Scratch sums = scratch_after(op.weight, scratch);
  const std::int64_t half = head_dim / 2, num_heads = in.columns / head_dim;
  const RowBlocks blocks(in.rows, head_dim);
  with_type(in, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (in.rows * in.columns >= min_parallel_elements)
    for (std::int64_t block = 0; block < blocks.count; ++block) {
      float* partial = sums.data + block * head_dim;
      for (std::int64_t c = 0; c < head_dim; ++c) partial[c] = 0.0f;
      float dy[max_head_dim];
      const std::int64_t end = min(in.rows, (block + 1) * blocks.rows);
      for (std::int64_t t = block * blocks.rows; t < end; ++t) {
        for (std::int64_t h = 0; h < num_heads; ++h) {
          const T* dy_turned = row<T>(dout, t) + h * head_dim;
          if (cosine == nullptr) {
            for (std::int64_t c = 0; c < head_dim; ++c) dy[c] = load(dy_turned[c]);
          } else {
            rotate(dy, dy_turned, cosine + t * half, sine + t * half, half, -1.0f);
          }
          norm_backward<T>(row<T>(din, t) + h * head_dim, partial, dy, row<T>(in, t) + h * head_dim,
                           rstd[t * num_heads + h], weight, nullptr, head_dim);
        }
      }
    }
  });
  if (dweight != nullptr) add_rows(dweight, sums.data, blocks.count, head_dim);
}

}  // namespace sft::ops::cpu::SFT_ISA
