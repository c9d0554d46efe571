// SPDX-License-Identifier: Apache-2.0
// Random numbers by counters (ops/random_bits.hpp); normal ones through the transform of Box and Muller (1958).

#include "ops/cpu/kernels/math.hpp"
#include "ops/cpu/kernels/philox_vectors.hpp"
#include "ops/cpu/kernels/run.hpp"
#include "ops/random_bits.hpp"
#include "ops/sine_cosine.hpp"
#include "sft/ops/calls/dropout.hpp"
#include "sft/ops/calls/elementary.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

/// Counters of a run; each gives four numbers.
constexpr std::int64_t batch_counters = 256;
constexpr std::int64_t batch_numbers = 4 * batch_counters;

/// The random words of a run, in the order of their counters.
struct alignas(vector_bytes) Batch {
  std::uint32_t words[batch_numbers];
};

/// Two independent normal numbers from 24 bits of each of two words.
inline void box_muller(std::uint32_t a, std::uint32_t b, float& first, float& second) {
  box_muller_pair(__builtin_sqrtf(-2.0f * log_of(box_muller_uniform(a))), b, first, second);
}

/// The words of the counters from `first` on.
void draw(std::uint64_t seed, std::uint64_t first, Batch& batch) {
  for (std::int64_t i = 0; i < batch_counters; i += vector_counters) {
    const DrawnWords drawn = philox_of_vector(seed, first + static_cast<std::uint64_t>(i));
    __builtin_memcpy(batch.words + 4 * i, &drawn, sizeof(drawn));
  }
}

/// Standard normal numbers.
struct Normal {
  static void transform(const Batch& batch, float (&numbers)[batch_numbers]) {
#pragma omp simd
    for (std::int64_t i = 0; i < batch_numbers; i += 2) {
      box_muller(batch.words[i], batch.words[i + 1], numbers[i], numbers[i + 1]);
    }
  }
};

/// 24 bits, evenly distributed in [-1, 1).
struct Uniform {
  static void transform(const Batch& batch, float (&numbers)[batch_numbers]) {
#pragma omp simd
    for (std::int64_t i = 0; i < batch_numbers; ++i) numbers[i] = uniform_of(batch.words[i]);
  }
};

/// Calls use(index, words, first, count) for runs that together are [first_index, first_index + size): the word of
/// first_index + index + i is batch.words[first + i].
template <class Use>
void for_each_batch(std::int64_t size, std::uint64_t seed, std::int64_t first_index, Use use) {
  const std::int64_t first_batch = first_index / batch_numbers;
  const std::int64_t num_batches = divide_up(first_index + size, batch_numbers) - first_batch;
#pragma omp parallel for if (size >= min_parallel_elements)
  for (std::int64_t number = 0; number < num_batches; ++number) {
    Batch batch;
    const std::int64_t first_counter = (first_batch + number) * batch_counters;
    draw(seed, static_cast<std::uint64_t>(first_counter), batch);
    const std::int64_t offset = 4 * first_counter - first_index;  // of the first word
    const std::int64_t begin = max(0, -offset), end = min(batch_numbers, size - offset);
    use(offset + begin, batch, begin, end - begin);
  }
}

/// Calls use(index, numbers, count) for the same runs: numbers[i] is that of first_index + index + i.
template <class Distribution, class Use>
void for_each_run(std::int64_t size, std::uint64_t seed, std::int64_t first_index, Use use) {
  for_each_batch(size, seed, first_index,
                 [&](std::int64_t index, const Batch& batch, std::int64_t first, std::int64_t count) {
                   float numbers[batch_numbers];
                   Distribution::transform(batch, numbers);
                   use(index, numbers + first, count);
                 });
}

template <class Distribution>
void fill_random(View x, std::uint64_t seed, std::int64_t first_index, float factor) {
  with_type(x, [&](auto type) {
    auto* out = row<typename decltype(type)::type>(x, 0);
    for_each_run<Distribution>(x.columns, seed, first_index,
                               [&](std::int64_t index, const float* numbers, std::int64_t count) {
                                 for (std::int64_t i = 0; i < count; ++i) store(out[index + i], factor * numbers[i]);
                               });
  });
}

/// `adds`: to what is in out.
template <class To, class From, bool adds>
void drop(View out_view, ConstView in_view, float probability, std::uint64_t seed, std::int64_t first_index) {
  const float factor = 1.0f / (1.0f - probability);
  const std::uint32_t first_kept = first_kept_word(probability);
#pragma omp parallel for if (in_view.rows > 1 && in_view.rows * in_view.columns >= min_parallel_elements)
  for (std::int64_t r = 0; r < in_view.rows; ++r) {
    To* to = row<To>(out_view, r);
    const From* from = row<From>(in_view, r);
    for_each_batch(in_view.columns, seed, first_index + r * in_view.stride,
                   [&](std::int64_t index, const Batch& batch, std::int64_t first, std::int64_t count) {
                     To* out = to + index;
                     const From* in = from + index;
                     const std::uint32_t* words = batch.words + first;
#pragma omp simd
                     for (std::int64_t i = 0; i < count; ++i) {
                       // By bits, because a branch would keep the loop from vectors, and a choice of floats would let
                       // some compilers round the product and the sum at once.
                       const std::uint32_t mask = words[i] < first_kept ? 0u : ~0u;
                       const std::uint32_t scaled = __builtin_bit_cast(std::uint32_t, factor * load(in[i])) & mask;
                       const float kept = __builtin_bit_cast(float, scaled);
                       store(out[i], adds ? load(out[i]) + kept : kept);
                     }
                   });
  }
}

}  // namespace

template <>
void run(const FillNormal& op, Scratch) {
  fill_random<Normal>(flat_view_of(op.x), op.seed, op.first_index, op.stddev);
}

template <>
void run(const FillUniform& op, Scratch) {
  fill_random<Uniform>(flat_view_of(op.x), op.seed, op.first_index, op.bound);
}

template <>
void run(const AddUniform& op, Scratch) {
  const View x = flat_view_of(op.x);
  with_type(x, [&](auto type) {
    auto* out = row<typename decltype(type)::type>(x, 0);
    for_each_run<Uniform>(x.columns, op.seed, op.first_index,
                          [&](std::int64_t index, const float* numbers, std::int64_t count) {
                            for (std::int64_t i = 0; i < count; ++i) {
                              store(out[index + i], load(out[index + i]) + op.bound * numbers[i]);
                            }
                          });
  });
}

template <>
void run(const Dropout& op, Scratch) {
  const ViewPair pair = pair_of(op.out, op.in);
  const View out = pair.to;
  const ConstView in = pair.from;
  const std::uint64_t seed = seed_of_op(*static_cast<const std::uint64_t*>(op.seed.data), op.number, op.part);
  with_type(out, [&](auto to) {
    with_type(in, [&](auto from) {
      using To = typename decltype(to)::type;
      using From = typename decltype(from)::type;
      const auto dropping = op.accumulate ? drop<To, From, true> : drop<To, From, false>;
      dropping(out, in, op.probability, seed, op.first_index);
    });
  });
}

}  // namespace sft::ops::cpu::SFT_ISA
