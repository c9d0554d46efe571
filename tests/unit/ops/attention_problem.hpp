// SPDX-License-Identifier: Apache-2.0
#pragma once
// Attention of some shape, with its inputs and outputs and what loops in double precision make of them.

#include <cmath>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "unit/ops/naive.hpp"
#include "unit/ops/support.hpp"

namespace sft::ops::testing {

using Spans = std::vector<sequence::AttentionSpan>;

struct Shape {
  std::int64_t rows, key_rows, num_heads, num_kv_heads, head_dim;
};

inline constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

/// `count` heads from head `first` on of rows of heads.
inline Tensor heads_of(const Owned& storage, std::int64_t first, std::int64_t count, std::int64_t head_dim) {
  return storage->columns(first * head_dim, count * head_dim).view({storage->shape[0], count, head_dim});
}

/// What is done to scores.
struct Scores {
  float softcap = 0.0F;
  bool has_sinks = false;
  DType sinks_dtype = DType::float32;
};

/// Inputs and outputs of one attention; q, k, v and out lie in wider rows. What is written is NaN at first.
struct Problem {
  Shape shape;
  float scale;
  float softcap = 0.0F;
  Owned sinks;  ///< (H), or none
  Owned q_storage, kv_storage, out_storage, lse;

  /// Inputs have `dtype`, the output `out_dtype`.
  Problem(const Shape& of, DType dtype, DType out_dtype, const Scores& scores = {})
      : shape(of),
        scale(1.0f / std::sqrt(static_cast<float>(of.head_dim))),
        softcap(scores.softcap),
        sinks(Owned(scores.sinks_dtype, {scores.has_sinks ? of.num_heads : 0}).normal(7, 1.5)),
        q_storage(Owned(dtype, {of.rows, (of.num_heads + 1) * of.head_dim}).normal(1, 1.5)),
        kv_storage(Owned(dtype, {of.key_rows, (2 * of.num_kv_heads + 1) * of.head_dim}).normal(2, 1.5)),
        out_storage(out_dtype, {of.rows, (of.num_heads + 1) * of.head_dim}),
        lse(DType::float32, {of.rows, of.num_heads}) {}

  [[nodiscard]] Tensor q() const { return heads_of(q_storage, 0, shape.num_heads, shape.head_dim); }
  [[nodiscard]] Tensor k() const { return heads_of(kv_storage, 1, shape.num_kv_heads, shape.head_dim); }
  [[nodiscard]] Tensor v() const {
    return heads_of(kv_storage, 1 + shape.num_kv_heads, shape.num_kv_heads, shape.head_dim);
  }
  [[nodiscard]] Tensor out() const { return heads_of(out_storage, 1, shape.num_heads, shape.head_dim); }
  [[nodiscard]] naive::Attention naive() const {
    return {shape.num_heads, shape.num_kv_heads, shape.head_dim, scale, softcap, read(*sinks)};
  }
  void forward(TestBackend& backend, const Spans& spans, bool merge = false) const {
    const auto plan = backend->plan_attention(spans, shape.rows, shape.key_rows);
    const Tensor first_sinks = merge ? Tensor() : *sinks;
    backend->run(AttentionForward{q(), k(), v(), out(), *lse, scale, *plan, merge, softcap, first_sinks});
  }
  /// The naive result over `spans` from nothing.
  void expect(naive::Values& expected_out, naive::Values& expected_lse, const Spans& spans) const {
    expected_out.assign(static_cast<std::size_t>(shape.rows * shape.num_heads * shape.head_dim), 0.0);
    expected_lse.assign(static_cast<std::size_t>(shape.rows * shape.num_heads), 0.0);
    naive().forward(expected_out, expected_lse, read(q()), read(k()), read(v()), spans);
  }
};

/// Gradients of one attention in wider rows, NaN at first.
struct Gradients {
  std::int64_t num_heads, num_kv_heads, head_dim;
  Owned q_storage, kv_storage;

  Gradients(const Shape& shape, DType q_dtype, DType kv_dtype)
      : num_heads(shape.num_heads),
        num_kv_heads(shape.num_kv_heads),
        head_dim(shape.head_dim),
        q_storage(q_dtype, {shape.rows, (shape.num_heads + 1) * shape.head_dim}),
        kv_storage(kv_dtype, {shape.key_rows, (2 * shape.num_kv_heads + 1) * shape.head_dim}) {}

  [[nodiscard]] Tensor dq() const { return heads_of(q_storage, 1, num_heads, head_dim); }
  [[nodiscard]] Tensor dk() const { return heads_of(kv_storage, 0, num_kv_heads, head_dim); }
  [[nodiscard]] Tensor dv() const { return heads_of(kv_storage, 1 + num_kv_heads, num_kv_heads, head_dim); }
};

/// Products of bf16 pairs, and those in AMX tiles, round probabilities and their gradients to bf16; all others keep
/// float32. What vdpbf16ps takes for 0, a product below 2^-126, is far below either.
inline double attention_tolerance(const TestBackend& backend, DType dtype) {
  return cpu::has_fast_bf16_products(backend.isa()) && dtype == DType::bf16 ? 0.004 : 5e-6;
}

/// The gradient of a score is a difference of numbers around 1; of a single token's nothing is left.
inline constexpr double score_terms = 1.0;

/// The same where the result is stored as `out`: rounding to the 8 bits of bf16 adds 1/256 of a number at most.
inline double stored_tolerance(const TestBackend& backend, DType dtype, DType out) {
  return attention_tolerance(backend, dtype) + (out == DType::bf16 ? 1.0 / 256 : 0.0);
}

/// Documents of the given lengths, one after the other; two neighbours share a lane.
inline Spans documents(const std::vector<std::int64_t>& lengths) {
  Spans spans;
  std::int64_t begin = 0;
  for (const std::int64_t length : lengths) {
    spans.push_back({begin, length, begin, length, 0, std::ssize(spans) / 2});
    begin += length;
  }
  return spans;
}

/// Rows of 213 with a tail outside every document, and one row of one token.
inline const std::vector<Shape> shapes = {
    {1, 1, 1, 1, 8}, {215, 215, 4, 2, 16}, {213, 213, 2, 2, 64}, {70, 70, 5, 1, 256}, {150, 150, 3, 1, 10}};

inline Spans documents_of(const Shape& shape) {
  if (shape.rows == 1) return documents({1});
  if (shape.rows == 70) return documents({70});
  if (shape.rows == 150) return documents({64, 65, 20});
  return documents({1, 3, 64, 17, 128});
}

/// Rectangles as a rank of a zigzag ring meets them: own keys, keys all visible, keys none of which is.
inline const Shape zigzag_shape{175, 255, 4, 2, 16};
inline Spans zigzag() {
  return {{0, 70, 0, 70, 0, 0}, {0, 70, 70, 50, 1000, 0}, {80, 90, 130, 90, -20, 1}, {80, 90, 220, 30, -500, 1}};
}

/// The spans of a list, with a window.
inline Spans with_window(Spans spans, std::int64_t window) {
  for (sequence::AttentionSpan& span : spans) span.window = window;
  return spans;
}

/// Windows of one token, shorter than a tile of the kernels, a little longer, and longer than some documents.
inline constexpr std::int64_t windows[] = {1, 2, 31, 64, 65, 100, 250};

/// What a rank sees of earlier keys of a document, of its tokens from 0 and from 190 on; its queries are those from 300
/// on.
inline const Shape far_shape{140, 210, 4, 2, 16};
inline Spans far_keys(std::int64_t window) {
  return {{5, 130, 0, 110, 300, 0, window}, {5, 130, 110, 90, 110, 0, window}};
}

/// float32, and the compute dtype where that is another.
inline std::vector<DType> output_dtypes(DType compute) {
  return compute == DType::float32 ? std::vector{DType::float32} : std::vector{DType::float32, compute};
}

/// A backward pass with what the forward pass leaves to it, from the naive one.
struct BackwardProblem : Problem {
  Owned dout, delta;
  naive::Values naive_out, naive_lse;
  naive::Values naive_dq, naive_dk, naive_dv;

  BackwardProblem(const Shape& of, DType dtype, const Spans& spans, const Scores& scores = {})
      : Problem(of, dtype, dtype, scores),
        dout(Owned(dtype, {of.rows, of.num_heads, of.head_dim}).normal(3)),
        delta(DType::float32, {of.rows, of.num_heads}) {
    expect(naive_out, naive_lse, spans);
    for (std::int64_t t = 0; t < of.rows; ++t) {
      for (std::int64_t h = 0; h < of.num_heads; ++h) {
        set(*lse, t, h, naive_lse[t * of.num_heads + h]);
        double sum = 0.0;
        for (std::int64_t d = 0; d < of.head_dim; ++d) {
          const std::int64_t column = h * of.head_dim + d;
          set(out(), t, column, naive_out[t * of.num_heads * of.head_dim + column]);
          sum += naive_out[t * of.num_heads * of.head_dim + column] * get(*dout, t, column);
        }
        set(*delta, t, h, sum);
      }
    }
    naive_dq.resize(naive_out.size());
    naive_dk.resize(read(k()).size());
    naive_dv.resize(naive_dk.size());
    naive().backward(naive_dq, naive_dk, naive_dv, read(q()), read(k()), read(v()), naive_out, naive_lse, read(*dout),
                     spans);
  }

  void backward(TestBackend& backend, const Spans& spans, const Gradients& gradients, bool accumulate_dq = false,
                bool accumulate_dkv = false) const {
    const auto plan = backend->plan_attention(spans, shape.rows, shape.key_rows);
    backend->run(AttentionBackward{q(), k(), v(), *dout, *lse, *delta, gradients.dq(), gradients.dk(), gradients.dv(),
                                   scale, *plan, accumulate_dq, accumulate_dkv, softcap});
  }
  /// Adds the naive gradients to what the arguments hold.
  void expect_gradients(naive::Values& dq, naive::Values& dk, naive::Values& dv) const {
    const auto add = [](naive::Values& to, const naive::Values& gradient) {
      for (std::size_t i = 0; i < gradient.size(); ++i) to[i] += gradient[i];
    };
    add(dq, naive_dq);
    add(dk, naive_dk);
    add(dv, naive_dv);
  }
};

}  // namespace sft::ops::testing
