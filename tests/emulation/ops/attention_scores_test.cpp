// SPDX-License-Identifier: Apache-2.0
// What is done to the scores of attention: caps and sinks.

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <string>

#include <fmt/core.h>

#include "emulation/ops/support.hpp"
#include "sft/sequence/attention.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(attention_scores)

namespace {

using Spans = std::vector<sequence::AttentionSpan>;

struct Heads {
  std::int64_t num, num_kv, dim;
};
/// Every padding of the kernels, in either dtype.
constexpr Heads all_heads[] = {{3, 1, 10}, {4, 2, 64}, {2, 1, 128}, {2, 1, 256}};

struct Work {
  std::int64_t num_queries, num_keys;
  Spans spans;
};
/// Documents, one of one token, with a tail outside; with a window; keys behind a cache, with one that hides some.
const Work works[] = {{140, 140, {{0, 70, 0, 70, 0, 0}, {70, 1, 70, 1, 0, 1}, {71, 60, 71, 60, 0, 2}}},
                      {140, 140, {{0, 70, 0, 70, 0, 0, 9}, {70, 1, 70, 1, 0, 1, 9}, {71, 60, 71, 60, 0, 2, 9}}},
                      {60, 140, {{0, 60, 0, 80, 80, 0, 50}, {0, 60, 80, 60, 0, 0, 50}}}};

struct Scores {
  float softcap;
  bool has_sinks;
  DType sinks_dtype;
};
constexpr Scores all_scores[] = {
    {1.5F, false, DType::float32}, {0.0F, true, DType::float32}, {2.5F, true, DType::bf16}};

/// As attention_test.cpp has them for sums that are rounded between products.
Tolerance tolerance_of_sums(DType compute) {
  if (compute == DType::float32) return {.of_largest = 1e-5, .absolute = 5e-6};
  return {.of_largest = 0.012, .absolute = 5e-6};
}
constexpr Tolerance lse_tolerance{.of_largest = 3e-6, .of_itself = 3e-6};

/// q, k and v of normal numbers, and sinks.
struct Inputs {
  Twin q, k, v, sinks;
  float scale;
  Scores scores;

  Inputs(const Work& work, Heads heads, DType dtype, const Scores& of, unsigned seed)
      : q(Twin(dtype, {work.num_queries, heads.num, heads.dim}).normal(seed, 1.5)),
        k(Twin(dtype, {work.num_keys, heads.num_kv, heads.dim}).normal(seed + 1000, 1.5)),
        v(Twin(dtype, {work.num_keys, heads.num_kv, heads.dim}).normal(seed + 2000, 1.5)),
        sinks(Twin(of.sinks_dtype, {heads.num}).normal(seed + 3000, 1.5)),
        scale(1.0F / std::sqrt(static_cast<float>(heads.dim))),
        scores(of) {}
};

template <class Of>
ConstTensor sinks_of(Inputs& x, const Of& of) {
  return x.scores.has_sinks ? ConstTensor(of(x.sinks)) : ConstTensor();
}

}  // namespace

BOOST_AUTO_TEST_CASE(capped_and_beside_sinks) {
  unsigned seed = 0;
  for (const DType dtype : attention_dtypes()) {
    for (const Heads heads : all_heads) {
      for (const Scores& scores : all_scores) {
        const Work& work = works[++seed % std::size(works)];
        Inputs x(work, heads, dtype, scores, seed);
        Twin dout = Twin(dtype, {work.num_queries, heads.num, heads.dim}).normal(seed + 4000);
        Twin result(dtype, {work.num_queries, heads.num, heads.dim});
        Twin dq(dtype, {work.num_queries, heads.num, heads.dim});
        Twin dk(dtype, {work.num_keys, heads.num_kv, heads.dim}), dv(dtype, {work.num_keys, heads.num_kv, heads.dim});
        Twin lse(DType::float32, {work.num_queries, heads.num}), delta(DType::float32, {work.num_queries, heads.num});
        Twin dsinks = Twin(DType::float32, {heads.num}).normal(seed + 5000);
        const Tolerance sums = tolerance_of_sums(dtype);
        check(fmt::format("{} {}/{} x {}, softcap {}, sinks {}", text_of(dtype), heads.num, heads.num_kv, heads.dim,
                          scores.softcap, scores.has_sinks),
              {in(x.q), in(x.k), in(x.v), in(x.sinks), in(dout), out(result, sums), out(lse, lse_tolerance),
               out(delta, {.of_largest = dtype == DType::bf16 ? 0.02 : 1e-5}), out(dq, sums), out(dk, sums),
               out(dv, sums), out(dsinks, {.of_largest = dtype == DType::bf16 ? 0.02 : 1e-5})},
              [&](Backend& backend, auto of) {
                const auto plan = backend.plan_attention(work.spans, work.num_queries, work.num_keys);
                backend.run(AttentionForward{.q = of(x.q),
                                             .k = of(x.k),
                                             .v = of(x.v),
                                             .out = of(result),
                                             .lse = of(lse),
                                             .scale = x.scale,
                                             .plan = *plan,
                                             .softcap = scores.softcap,
                                             .sinks = sinks_of(x, of)});
                backend.run(AttentionDelta{of(delta), of(result), of(dout)});
                backend.run(AttentionBackward{.q = of(x.q),
                                              .k = of(x.k),
                                              .v = of(x.v),
                                              .dout = of(dout),
                                              .lse = of(lse),
                                              .delta = of(delta),
                                              .dq = of(dq),
                                              .dk = of(dk),
                                              .dv = of(dv),
                                              .scale = x.scale,
                                              .plan = *plan,
                                              .softcap = scores.softcap});
                backend.run(AttentionSinksBackward{of(dsinks), of(x.sinks), of(lse), of(delta)});
              });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(the_sink_counts_once_in_calls_that_merge) {
  for (const DType dtype : attention_dtypes()) {
    for (const Scores& scores : all_scores) {
      const Work& work = works[2];
      const Heads heads{4, 2, 64};
      Inputs x(work, heads, dtype, scores, 1);
      Twin result(DType::float32, {work.num_queries, heads.num, heads.dim});
      Twin lse(DType::float32, {work.num_queries, heads.num});
      check(fmt::format("merge {}, softcap {}, sinks {}", text_of(dtype), scores.softcap, scores.has_sinks),
            {in(x.q), in(x.k), in(x.v), in(x.sinks), out(result, tolerance_of_sums(dtype)), out(lse, lse_tolerance)},
            [&](Backend& backend, auto of) {
              for (const bool merges : {false, true}) {
                const Spans spans = {work.spans[merges ? 0 : 1]};
                const auto plan = backend.plan_attention(spans, work.num_queries, work.num_keys);
                backend.run(AttentionForward{.q = of(x.q),
                                             .k = of(x.k),
                                             .v = of(x.v),
                                             .out = of(result),
                                             .lse = of(lse),
                                             .scale = x.scale,
                                             .plan = *plan,
                                             .merge = merges,
                                             .softcap = scores.softcap,
                                             .sinks = merges ? ConstTensor() : sinks_of(x, of)});
              }
            });
    }
  }
}

BOOST_AUTO_TEST_CASE(gradients_of_sinks_of_any_size) {
  for (const std::int64_t num_tokens : {0, 1, 37, 700}) {
    for (const std::int64_t num_heads : {1, 3, 40}) {
      for (const DType dtype : attention_dtypes()) {
        Twin sinks = Twin(dtype, {num_heads}).normal(1), dsinks = Twin(DType::float32, {num_heads}).normal(2);
        Twin delta = Twin(DType::float32, {num_tokens, num_heads}).normal(3);
        Twin lse = Twin(DType::float32, {num_tokens, num_heads}).filled([](auto t, auto h) {
          return (t + h) % 5 == 0 ? -std::numeric_limits<double>::infinity()
                                  : static_cast<double>((t * 7 + h) % 11) / 4;
        });
        check(fmt::format("sinks {} x {} {}", num_tokens, num_heads, text_of(dtype)),
              {in(sinks), in(delta), in(lse), out(dsinks, {.of_largest = 1e-5})}, [&](Backend& backend, auto of) {
                backend.run(AttentionSinksBackward{of(dsinks), of(sinks), of(lse), of(delta)});
              });
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
