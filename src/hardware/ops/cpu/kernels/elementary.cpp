// SPDX-License-Identifier: Apache-2.0
// Fill, copy with conversion, sums.

#include "sft/ops/calls/elementary.hpp"
#include "ops/cpu/kernels/run.hpp"
#include "ops/cpu/kernels/transpose.hpp"
#include "sft/ops/calls/matmul.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

/// Elements of one unit of work of a flat loop.
constexpr std::int64_t chunk_elements = 16384;

/// A contiguous tensor as rows of a size that threads can share out.
View in_rows(const Tensor& x) {
  View view = x.is_contiguous() ? flat_view_of(x) : view_of(x);
  constexpr std::int64_t row = 4096;
  if (x.is_contiguous() && view.columns % row == 0) view = {view.data, view.is_bf16, view.columns / row, row, row};
  return view;
}

/// Calls work(row, first column, number of columns) for pieces of all rows, on many threads.
template <class Memory, class F>
void for_each_chunk(const BasicView<Memory>& x, F work) {
  const std::int64_t chunks_per_row = divide_up(x.columns, chunk_elements);
  const std::int64_t num_chunks = x.rows * chunks_per_row;
#pragma omp parallel for if (x.rows * x.columns >= min_parallel_elements)
  for (std::int64_t chunk = 0; chunk < num_chunks; ++chunk) {
    const std::int64_t begin = chunk % chunks_per_row * chunk_elements;
    work(chunk / chunks_per_row, begin, min(x.columns - begin, chunk_elements));
  }
}

template <class To, class From>
void copy_as(View destination, ConstView source) {
  for_each_chunk(source, [&](std::int64_t r, std::int64_t begin, std::int64_t size) {
    To* to = row<To>(destination, r) + begin;
    const From* from = row<From>(source, r) + begin;
#pragma omp simd
    for (std::int64_t c = 0; c < size; ++c) store(to[c], load(from[c]));
  });
}

template <class To, class From>
void add_to_rows(View destination, ConstView source) {
  for_each_chunk(source, [&](std::int64_t r, std::int64_t begin, std::int64_t size) {
    To* to = row<To>(destination, r) + begin;
    const From* from = row<From>(source, r) + begin;
#pragma omp simd
    for (std::int64_t c = 0; c < size; ++c) store(to[c], load(to[c]) + load(from[c]));
  });
}

void scale(View x, float factor) {
  with_type(x, [&](auto type) {
    using T = typename decltype(type)::type;
    for_each_chunk(x, [&](std::int64_t r, std::int64_t begin, std::int64_t size) {
      T* at = row<T>(x, r) + begin;
#pragma omp simd
      for (std::int64_t c = 0; c < size; ++c) store(at[c], factor * load(at[c]));
    });
  });
}

/// Float sums over short runs, double sums over the runs of a fixed number of chunks.
double sum_squares(const float* x, std::int64_t size) {
  constexpr std::int64_t num_chunks = 256, run = 1024;
  const std::int64_t chunk_size = round_up(divide_up(size, num_chunks), run);
  double partials[num_chunks];
#pragma omp parallel for if (size >= min_parallel_elements)
  for (std::int64_t chunk = 0; chunk < num_chunks; ++chunk) {
    const std::int64_t end = min(size, (chunk + 1) * chunk_size);
    double sum = 0.0;
    for (std::int64_t begin = chunk * chunk_size; begin < end; begin += run) {
      const std::int64_t run_end = min(end, begin + run);
      float run_sum = 0.0f;
#pragma omp simd reduction(+ : run_sum)
      for (std::int64_t i = begin; i < run_end; ++i) run_sum += x[i] * x[i];
      sum += static_cast<double>(run_sum);
    }
    partials[chunk] = sum;
  }
  double total = 0.0;
  for (double partial : partials) total += partial;
  return total;
}

}  // namespace

void copy_rows(View destination, ConstView source) {
  with_type(destination, [&](auto to) {
    with_type(source, [&](auto from) {
      copy_as<typename decltype(to)::type, typename decltype(from)::type>(destination, source);
    });
  });
}

/// Squares of source numbers are widened, then transposed in registers.
void copy_transposed(View destination, ConstView source) {
  constexpr std::int64_t step = vector_floats;
  with_type(source, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (source.rows * source.columns >= min_parallel_elements)
    for (std::int64_t r = 0; r < source.rows; r += step) {
      for (std::int64_t c = 0; c < source.columns; c += step) {
        const std::int64_t rows = min(step, source.rows - r), columns = min(step, source.columns - c);
        float* to = row<float>(destination, c) + r;
        if (rows == step && columns == step) {
          float square[step * step];
          for (std::int64_t i = 0; i < step; ++i) {
            const T* from = row<T>(source, r + i) + c;
#pragma omp simd
            for (std::int64_t j = 0; j < step; ++j) square[i * step + j] = load(from[j]);
          }
          transpose(to, destination.stride, square, step, {step, step});
        } else {
          for (std::int64_t i = 0; i < rows; ++i) {
            const T* from = row<T>(source, r + i) + c;
            for (std::int64_t j = 0; j < columns; ++j) to[j * destination.stride + i] = load(from[j]);
          }
        }
      }
    }
  });
}

template <>
void run(const Fill& op, Scratch) {
  const View x = in_rows(op.x);
  const float value = op.value;
  with_type(x, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (x.rows * x.columns >= min_parallel_elements)
    for (std::int64_t r = 0; r < x.rows; ++r) {
      T* out = row<T>(x, r);
#pragma omp simd
      for (std::int64_t c = 0; c < x.columns; ++c) store(out[c], value);
    }
  });
}

template <>
void run(const Copy& op, Scratch) {
  const ViewPair pair = pair_of(op.destination, op.source);
  copy_rows(pair.to, pair.from);
}

template <>
void run(const Add& op, Scratch) {
  const ViewPair pair = pair_of(op.destination, op.source);
  const View destination = pair.to;
  const ConstView source = pair.from;
  with_type(destination, [&](auto to) {
    with_type(source, [&](auto from) {
      add_to_rows<typename decltype(to)::type, typename decltype(from)::type>(destination, source);
    });
  });
}

template <>
void run(const Scale& op, Scratch) {
  scale(flat_view_of(op.x), op.factor);
}

template <>
void run(const SumSquares& op, Scratch) {
  *doubles_of(op.result) += sum_squares(floats_of(op.x), op.x.num_elements());
}

template <>
void run(const DivideByNorm& op, Scratch) {
  const double norm = __builtin_sqrt(*doubles_of(op.squares)), least = static_cast<double>(op.epsilon);
  scale(flat_view_of(op.x), static_cast<float>(1.0 / (norm < least ? least : norm)));
}

template <>
void run(const BiasBackward& op, Scratch scratch) {
  ensure(max(column_sum_floats, op.dy.shape[1]) <= scratch.num_floats, "ops: the workspace holds a row");
  float* const sums = floats_of(op.dbias);
  const ConstView x = view_of(op.dy);
  const RowBlocks blocks(x.rows, x.columns);
  with_type(x, [&](auto type) {
    using T = typename decltype(type)::type;
#pragma omp parallel for if (x.rows * x.columns >= min_parallel_elements)
    for (std::int64_t block = 0; block < blocks.count; ++block) {
      float* partial = scratch.data + block * x.columns;
      for (std::int64_t c = 0; c < x.columns; ++c) partial[c] = 0.0f;
      const std::int64_t end = min(x.rows, (block + 1) * blocks.rows);
      for (std::int64_t r = block * blocks.rows; r < end; ++r) {
        const T* in = row<T>(x, r);
#pragma omp simd
        for (std::int64_t c = 0; c < x.columns; ++c) partial[c] += load(in[c]);
      }
    }
  });
  add_rows(sums, scratch.data, blocks.count, x.columns);
}

}  // namespace sft::ops::cpu::SFT_ISA
