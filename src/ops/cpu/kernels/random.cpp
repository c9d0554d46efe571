// SPDX-License-Identifier: Apache-2.0
// Random numbers by counters (ops/random_bits.hpp); normal ones through the transform of Box and Muller (1958).

#include "ops/cpu/kernels/math.hpp"
#include "ops/cpu/kernels/table.hpp"
#include "ops/random_bits.hpp"
#include "ops/sine_cosine.hpp"

namespace sft::ops::cpu::SFT_ISA {
namespace {

/// Counters drawn together; each gives four numbers.
constexpr std::int64_t batch_counters = 256;
constexpr std::int64_t batch_numbers = 4 * batch_counters;

/// Two independent normal numbers from 24 bits of each of two words.
inline void box_muller(std::uint32_t a, std::uint32_t b, float& first, float& second) {
  box_muller_pair(__builtin_sqrtf(-2.0f * log_of(box_muller_uniform(a))), b, first, second);
}

/// The four words of counter first + i go to words[k][i].
void draw(std::uint64_t seed, std::uint64_t first, std::uint32_t (&words)[4][batch_counters]) {
#pragma omp simd
  for (std::int64_t i = 0; i < batch_counters; ++i) {
    const PhiloxWords drawn = philox(seed, first + static_cast<std::uint64_t>(i));
    words[0][i] = drawn.a;
    words[1][i] = drawn.b;
    words[2][i] = drawn.c;
    words[3][i] = drawn.d;
  }
}

/// Standard normal numbers.
struct Normal {
  static void transform(std::uint32_t (&words)[4][batch_counters], float (&numbers)[4][batch_counters]) {
#pragma omp simd
    for (std::int64_t i = 0; i < batch_counters; ++i) {
      box_muller(words[0][i], words[1][i], numbers[0][i], numbers[1][i]);
      box_muller(words[2][i], words[3][i], numbers[2][i], numbers[3][i]);
    }
  }
};

/// 24 bits, evenly distributed in [-1, 1).
struct Uniform {
  static void transform(std::uint32_t (&words)[4][batch_counters], float (&numbers)[4][batch_counters]) {
    for (std::int64_t k = 0; k < 4; ++k) {
#pragma omp simd
      for (std::int64_t i = 0; i < batch_counters; ++i) {
        numbers[k][i] = uniform_of(words[k][i]);
      }
    }
  }
};

/// Calls use(index, numbers, count) for runs that together are [first_index, first_index + size): numbers[i] is that of
/// index + i, relative to first_index.
template <class Distribution, class Use>
void for_each_run(std::int64_t size, std::uint64_t seed, std::int64_t first_index, Use use) {
  const std::int64_t first_batch = first_index / batch_numbers;
  const std::int64_t num_batches = divide_up(first_index + size, batch_numbers) - first_batch;
#pragma omp parallel for if (size >= min_parallel_elements)
  for (std::int64_t batch = 0; batch < num_batches; ++batch) {
    std::uint32_t words[4][batch_counters];
    float numbers[4][batch_counters];
    const std::int64_t first_counter = (first_batch + batch) * batch_counters;
    draw(seed, static_cast<std::uint64_t>(first_counter), words);
    Distribution::transform(words, numbers);
    float ordered[batch_numbers];
    for (std::int64_t i = 0; i < batch_counters; ++i) {
      for (std::int64_t k = 0; k < 4; ++k) ordered[4 * i + k] = numbers[k][i];
    }
    const std::int64_t offset = 4 * first_counter - first_index;  // of ordered[0]
    const std::int64_t begin = max(0, -offset), end = min(batch_numbers, size - offset);
    use(offset + begin, ordered + begin, end - begin);
  }
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

void add_uniform(View x, std::uint64_t seed, std::int64_t first_index, float bound) {
  with_type(x, [&](auto type) {
    auto* out = row<typename decltype(type)::type>(x, 0);
    for_each_run<Uniform>(x.columns, seed, first_index,
                          [&](std::int64_t index, const float* numbers, std::int64_t count) {
                            for (std::int64_t i = 0; i < count; ++i) {
                              store(out[index + i], load(out[index + i]) + bound * numbers[i]);
                            }
                          });
  });
}

template <class To, class From>
void drop(View out_view, ConstView in_view, float probability, std::uint64_t seed, std::int64_t first_index,
          bool accumulate) {
  const float factor = 1.0f / (1.0f - probability);
  const float threshold = 2.0f * probability - 1.0f;
#pragma omp parallel for if (in_view.rows > 1 && in_view.rows * in_view.columns >= min_parallel_elements)
  for (std::int64_t r = 0; r < in_view.rows; ++r) {
    To* out = row<To>(out_view, r);
    const From* in = row<From>(in_view, r);
    for_each_run<Uniform>(in_view.columns, seed, first_index + r * in_view.stride,
                          [&](std::int64_t index, const float* numbers, std::int64_t count) {
                            for (std::int64_t i = 0; i < count; ++i) {
                              const float kept = numbers[i] < threshold ? 0.0f : factor * load(in[index + i]);
                              store(out[index + i], accumulate ? load(out[index + i]) + kept : kept);
                            }
                          });
  }
}

void dropout(View out, ConstView in, float probability, std::uint64_t seed, std::int64_t first_index, bool accumulate) {
  with_type(out, [&](auto to) {
    with_type(in, [&](auto from) {
      drop<typename decltype(to)::type, typename decltype(from)::type>(out, in, probability, seed, first_index,
                                                                       accumulate);
    });
  });
}

}  // namespace

void enter_random(Kernels& table) {
  table.fill_normal = fill_random<Normal>;
  table.fill_uniform = fill_random<Uniform>;
  table.add_uniform = add_uniform;
  table.dropout = dropout;
}

}  // namespace sft::ops::cpu::SFT_ISA
