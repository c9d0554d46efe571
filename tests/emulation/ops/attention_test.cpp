// SPDX-License-Identifier: Apache-2.0
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdlib>
#include <string>

#include "emulation/ops/support.hpp"
#include "sft/sequence/attention_schedule.hpp"
#include "unit/ops/naive.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(attention)

namespace {

using Spans = std::vector<sequence::AttentionSpan>;

struct Heads {
  std::int64_t num, num_kv, dim;
};
/// Every padding of the kernels, and every way to share keys.
const std::vector<Heads> all_heads = {{1, 1, 2},  {3, 3, 10},  {2, 1, 32},   {7, 1, 64},  {4, 2, 64}, {2, 2, 80},
                                      {3, 1, 96}, {2, 1, 128}, {14, 2, 128}, {1, 1, 192}, {2, 1, 256}};

std::string label(const std::string& op, DType dtype, Heads heads, Layout layout, unsigned seed) {
  return op + " " + text_of(dtype) + " " + std::to_string(heads.num) + "/" + std::to_string(heads.num_kv) + " x " +
         std::to_string(heads.dim) + ", gap " + std::to_string(layout.gap) + ", seed " + std::to_string(seed);
}

/// What a rank attends to in one call.
struct Work {
  std::int64_t num_queries, num_keys;
  Spans spans;
};

/// Documents that fill `length` tokens, or leave a tail: some of one token, some longer than a tile.
std::vector<std::int32_t> random_documents(std::mt19937& random, std::int64_t length) {
  const auto below = [&](std::int64_t count) { return static_cast<std::int64_t>(random()) % count; };
  std::vector<std::int32_t> documents;
  for (std::int64_t left = length; left > 0;) {
    const std::int64_t wanted = below(3) == 0 ? 1 + below(3) : 1 + below(length);
    documents.push_back(static_cast<std::int32_t>(std::min(wanted, left)));
    left -= documents.back();
    if (below(6) == 0) break;
  }
  return documents;
}

/// Calls as the ways of attending make them: whole rows; each step of a ring; all keys at once; keys in a cache; two of
/// three with a window, from one token to some more than there are.
Work random_work(unsigned seed, std::int64_t max_tokens) {
  std::mt19937 random = random_of(seed);
  const auto below = [&](std::int64_t count) { return static_cast<std::int64_t>(random()) % count; };
  const std::int64_t tokens = 1 + below(max_tokens);
  const std::int64_t windows[] = {0, 1 + below(20), 1 + below(tokens + 20)};
  const std::int64_t window = windows[seed / 4 % 3];
  if (seed % 4 == 3) {
    const std::int64_t cached = below(100);
    Work work{tokens, cached + tokens, {}};
    if (cached > 0) work.spans.push_back({0, tokens, 0, cached, cached, 0, window});
    work.spans.push_back({0, tokens, cached, tokens, 0, 0, window});
    return work;
  }
  const int sp_size = seed % 4 == 0 ? 1 : static_cast<int>(2 + below(3));
  const sequence::RowCut cut(sequence::padded_row_length(tokens, sp_size), sp_size);
  const sequence::RowDocuments documents = {random_documents(random, cut.length())};
  const SpRank rank = SpRank::from(static_cast<int>(below(sp_size)));
  if (seed % 4 == 2) {
    return {cut.local_length(), cut.length(), schedule_all_gather(documents, cut, rank, window).rounds.front().spans};
  }
  const SpRank from = SpRank::from(static_cast<int>(below(sp_size)));
  return {cut.local_length(), cut.local_length(), attention_spans(documents, cut, rank, from, window)};
}

/// More than a tile where the heads are small; few otherwise where a GPU is emulated.
std::int64_t max_tokens_of(Heads heads) {
  if (has_large_sizes()) return 3000;
  const std::int64_t columns = heads.num * heads.dim;
  return columns <= 256 ? 170 : columns <= 512 ? 100 : 48;
}

/// How many random cases there are of each kind: few where a GPU is emulated, unless SFT_ATTENTION_ROUNDS says
/// otherwise.
unsigned num_rounds() {
  const char* const text = std::getenv("SFT_ATTENTION_ROUNDS");
  if (text != nullptr) return static_cast<unsigned>(std::atoi(text));
  return has_large_sizes() ? 24 : 1;
}

/// Seeds of random work for every heads and dtype, and the layouts in turn.
template <class F>
void for_each_case(F run) {
  unsigned seed = 0;
  for (unsigned round = 0; round < num_rounds(); ++round) {
    for (const DType dtype : compute_dtypes) {
      for (const Heads heads : all_heads) {
        if (is_tested(dtype)) run(dtype, layouts[seed % layouts.size()], heads, seed);
        ++seed;
      }
    }
  }
}

/// Probabilities and their gradients are rounded to bf16 between the products, and by some kernels of the CPU too, at
/// other places: each result is within 0.004 of the exact one, and rounded once more where it is stored in bf16. A
/// query that sees one key has gradients of 0, of which rounding of terms around 10 remains.
Tolerance tolerance_of_sums(DType compute, DType stored) {
  constexpr double remainder = 5e-6;
  if (compute == DType::float32) return {.of_largest = 1e-5, .absolute = remainder};
  return {.of_largest = stored == DType::bf16 ? 0.012 : 0.008, .absolute = remainder};
}
constexpr Tolerance lse_tolerance{.of_largest = 3e-6, .of_itself = 3e-6};

std::vector<DType> output_dtypes(DType compute) {
  return compute == DType::float32 ? std::vector{DType::float32} : std::vector{DType::float32, compute};
}

/// q, k and v of normal numbers.
struct Inputs {
  Twin q, k, v;
  float scale;

  Inputs(const Work& work, Heads heads, DType dtype, Layout layout, unsigned seed)
      : q(Twin(dtype, {work.num_queries, heads.num, heads.dim}, layout).normal(seed, 1.5)),
        k(Twin(dtype, {work.num_keys, heads.num_kv, heads.dim}, layout).normal(seed + 1000, 1.5)),
        v(Twin(dtype, {work.num_keys, heads.num_kv, heads.dim}, layout).normal(seed + 2000, 1.5)),
        scale(1.0F / std::sqrt(static_cast<float>(heads.dim))) {}
};

constexpr double minus_infinity = -std::numeric_limits<double>::infinity();

/// Rows of x behind one another, read from the host's copy.
naive::Values values_of(Twin& x) {
  naive::Values values;
  x.for_each([&](auto r, auto c) { values.push_back(get(x.at(x.bytes(), r, c), x.cpu().dtype)); });
  return values;
}

/// The other one of the two dtypes that results may have, in turn.
DType output_dtype(DType compute, unsigned seed) {
  const std::vector<DType> dtypes = output_dtypes(compute);
  return dtypes[seed / 2 % dtypes.size()];
}

}  // namespace

BOOST_AUTO_TEST_CASE(forward_over_random_schedules) {
  for_each_case([](DType dtype, Layout layout, Heads heads, unsigned seed) {
    const Work work = random_work(seed, max_tokens_of(heads));
    Inputs x(work, heads, dtype, layout, seed);
    const DType out_dtype = output_dtype(dtype, seed);
    Twin result(out_dtype, {work.num_queries, heads.num, heads.dim}, layout);
    Twin lse(DType::float32, {work.num_queries, heads.num});
    check(label("forward", dtype, heads, layout, seed),
          {in(x.q), in(x.k), in(x.v), out(result, tolerance_of_sums(dtype, out_dtype)), out(lse, lse_tolerance)},
          [&](Backend& backend, auto of) {
            const auto plan = backend.plan_attention(work.spans, work.num_queries, work.num_keys);
            backend.run(AttentionForward{of(x.q), of(x.k), of(x.v), of(result), of(lse), x.scale, *plan});
          });
  });
}

BOOST_AUTO_TEST_CASE(rounds_of_a_ring_merge) {
  unsigned seed = 0;
  for (const DType dtype : compute_dtypes) {
    for (const Layout layout : layouts) {
      for (const Heads heads : {Heads{2, 1, 64}, {2, 2, 128}, {1, 1, 256}, {3, 1, 10}}) {
        ++seed;
        if (!is_tested(dtype)) continue;
        std::mt19937 random = random_of(seed);
        const int sp_size = 2 + static_cast<int>(seed % 3);
        const SpRank rank = SpRank::from(static_cast<int>(seed) % sp_size);
        const sequence::RowCut cut(sequence::padded_row_length(220, sp_size), sp_size);
        const std::int64_t window = seed % 2 == 0 ? 0 : 1 + static_cast<std::int64_t>(random() % 120);
        const auto schedule = schedule_ring({random_documents(random, cut.length())}, cut, rank, window);
        const Work work{cut.local_length(), cut.local_length(), {}};
        Twin result(DType::float32, {work.num_queries, heads.num, heads.dim}, layout);
        Twin lse(DType::float32, {work.num_queries, heads.num});
        std::vector<Inputs> steps;
        std::vector<Operand> operands;
        steps.reserve(schedule.rounds.size());
        for (std::size_t d = 0; d < schedule.rounds.size(); ++d) {
          Inputs& x = steps.emplace_back(work, heads, dtype, layout, seed + 100 * static_cast<unsigned>(d));
          operands.insert(operands.end(), {in(x.q), in(x.k), in(x.v)});
        }
        operands.push_back(out(result, tolerance_of_sums(dtype, DType::float32)));
        operands.push_back(out(lse, lse_tolerance));
        check(label("ring", dtype, heads, layout, seed), operands, [&](Backend& backend, auto of) {
          for (std::size_t d = 0; d < steps.size(); ++d) {
            const auto plan = backend.plan_attention(schedule.rounds[d].spans, work.num_queries, work.num_keys);
            backend.run(AttentionForward{of(steps[0].q), of(steps[d].k), of(steps[d].v), of(result), of(lse),
                                         steps[0].scale, *plan, /*merge=*/d > 0});
          }
        });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(rows_without_a_span_are_left_alone_by_a_merge) {
  for (const DType dtype : attention_dtypes()) {
    const Work work{150, 150, {{10, 20, 10, 20, 0, 0}}};
    const Heads heads{2, 1, 64};
    Inputs x(work, heads, dtype, {}, 1);
    Twin result = Twin(DType::float32, {work.num_queries, heads.num, heads.dim}).normal(5);
    Twin lse = Twin(DType::float32, {work.num_queries, heads.num}).normal(6);
    check("merge " + text_of(dtype),
          {in(x.q), in(x.k), in(x.v), out(result, tolerance_of_sums(dtype, DType::float32)), out(lse, lse_tolerance)},
          [&](Backend& backend, auto of) {
            const auto plan = backend.plan_attention(work.spans, work.num_queries, work.num_keys);
            backend.run(AttentionForward{of(x.q), of(x.k), of(x.v), of(result), of(lse), x.scale, *plan, true});
          });
  }
}

BOOST_AUTO_TEST_CASE(a_document_does_not_see_its_neighbours) {
  for (const DType dtype : attention_dtypes()) {
    const Work work{130, 130, {{50, 31, 50, 31, 0, 0}}};
    const Heads heads{2, 1, 64};
    Inputs x(work, heads, dtype, {}, 1);
    const auto is_inside = [](std::int64_t row) { return row >= 50 && row < 81; };
    for (Twin* twin : {&x.q, &x.k, &x.v}) {
      (void)std::move(*twin).filled([&](auto r, auto c) {
        return is_inside(r) ? static_cast<double>((r * 7 + c) % 5) - 2.0 : std::numeric_limits<double>::quiet_NaN();
      });
    }
    Twin dout = Twin(dtype, {work.num_queries, heads.num, heads.dim}).filled([&](auto r, auto c) {
      return is_inside(r) ? static_cast<double>((r + c) % 3) - 1.0 : std::numeric_limits<double>::quiet_NaN();
    });
    Twin result(dtype, {work.num_queries, heads.num, heads.dim}), dq(dtype, {work.num_queries, heads.num, heads.dim});
    Twin dk(dtype, {work.num_keys, heads.num_kv, heads.dim}), dv(dtype, {work.num_keys, heads.num_kv, heads.dim});
    Twin lse(DType::float32, {work.num_queries, heads.num});
    Twin delta = Twin(DType::float32, {work.num_queries, heads.num}).filled([&](auto r, auto) {
      return is_inside(r) ? 0.5 : std::numeric_limits<double>::quiet_NaN();
    });
    const Tolerance tolerance = tolerance_of_sums(dtype, dtype);
    check("neighbours " + text_of(dtype),
          {in(x.q), in(x.k), in(x.v), in(dout), in(delta), out(lse, lse_tolerance), out(result, tolerance),
           out(dq, tolerance), out(dk, tolerance), out(dv, tolerance)},
          [&](Backend& backend, auto of) {
            const auto plan = backend.plan_attention(work.spans, work.num_queries, work.num_keys);
            backend.run(AttentionForward{of(x.q), of(x.k), of(x.v), of(result), of(lse), x.scale, *plan});
            backend.run(AttentionBackward{of(x.q), of(x.k), of(x.v), of(dout), of(lse), of(delta), of(dq), of(dk),
                                          of(dv), x.scale, *plan});
          });
    x.q.for_each([&](auto r, auto c) {
      if (!is_inside(r)) BOOST_TEST(get(result.at(result.bytes(), r, c), dtype) == 0.0);
    });
  }
}

BOOST_AUTO_TEST_CASE(delta_is_the_product_of_output_and_its_gradient) {
  for (const DType dtype : attention_dtypes()) {
    for (const Layout layout : layouts) {
      for (const Heads heads : all_heads) {
        for (const std::int64_t tokens : {0, 1, 37}) {
          Twin result = Twin(dtype, {tokens, heads.num, heads.dim}, layout).normal(1);
          Twin dout = Twin(dtype, {tokens, heads.num, heads.dim}, layout).normal(2);
          Twin delta(DType::float32, {tokens, heads.num});
          check(label("delta", dtype, heads, layout, static_cast<unsigned>(tokens)),
                {in(result), in(dout), out(delta, {.of_largest = 3e-6})}, [&](Backend& backend, auto of) {
                  backend.run(AttentionDelta{of(delta), of(result), of(dout)});
                });
        }
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(backward_over_random_schedules) {
  for_each_case([](DType dtype, Layout layout, Heads heads, unsigned seed) {
    const Work work = random_work(seed, max_tokens_of(heads));
    Inputs x(work, heads, dtype, layout, seed);
    Twin dout = Twin(dtype, {work.num_queries, heads.num, heads.dim}, layout).normal(seed + 3000);
    Twin lse(DType::float32, {work.num_queries, heads.num}), delta(DType::float32, {work.num_queries, heads.num});
    Twin result(dtype, {work.num_queries, heads.num, heads.dim}, layout);
    const bool adds_to_dq = seed / 3 % 3 == 1, adds_to_dkv = seed % 5 < 2;
    const DType dq_dtype = adds_to_dq ? DType::float32 : output_dtype(dtype, seed);
    const DType dkv_dtype = adds_to_dkv ? DType::float32 : output_dtype(dtype, seed + 2);
    const auto gradient = [&](DType stored, std::int64_t rows, std::int64_t heads_of, bool adds) {
      Twin twin(stored, {rows, heads_of, heads.dim}, layout);
      return adds ? std::move(twin).normal(seed + 4000) : std::move(twin);
    };
    Twin dq = gradient(dq_dtype, work.num_queries, heads.num, adds_to_dq);
    Twin dk = gradient(dkv_dtype, work.num_keys, heads.num_kv, adds_to_dkv);
    Twin dv = gradient(dkv_dtype, work.num_keys, heads.num_kv, adds_to_dkv);
    check(label("backward", dtype, heads, layout, seed),
          {in(x.q), in(x.k), in(x.v), in(dout), out(result, tolerance_of_sums(dtype, dtype)), out(lse, lse_tolerance),
           out(delta, {.of_largest = dtype == DType::bf16 ? 0.02 : 1e-5}), out(dq, tolerance_of_sums(dtype, dq_dtype)),
           out(dk, tolerance_of_sums(dtype, dkv_dtype)), out(dv, tolerance_of_sums(dtype, dkv_dtype))},
          [&](Backend& backend, auto of) {
            const auto plan = backend.plan_attention(work.spans, work.num_queries, work.num_keys);
            backend.run(AttentionForward{of(x.q), of(x.k), of(x.v), of(result), of(lse), x.scale, *plan});
            backend.run(AttentionDelta{of(delta), of(result), of(dout)});
            backend.run(AttentionBackward{of(x.q), of(x.k), of(x.v), of(dout), of(lse), of(delta), of(dq), of(dk),
                                          of(dv), x.scale, *plan, adds_to_dq, adds_to_dkv});
          });
  });
}

// Whole blocks lie below the diagonal here, and some only half within the window; more of them come one behind the
// other than a kernel holds at a time.
BOOST_AUTO_TEST_CASE(forward_and_backward_of_documents_longer_than_blocks) {
  struct Case {
    DType dtype;
    std::int64_t head_dim, tokens, window;
  };
  std::vector<Case> cases = {{DType::bf16, 64, 530, 0}, {DType::bf16, 128, 401, 0}, {DType::bf16, 128, 401, 200}};
  for (const DType dtype : attention_dtypes()) {
    for (const std::int64_t window : {70, 100, 129}) cases.push_back({dtype, 64, 300, window});
  }
  for (const auto& [dtype, head_dim, tokens, window] : cases) {
    const Work work{tokens, tokens, {{0, tokens, 0, tokens, 0, 0, window}}};
    const Heads heads{1, 1, head_dim};
    Inputs x(work, heads, dtype, {}, static_cast<unsigned>(window));
    Twin dout = Twin(dtype, {work.num_queries, heads.num, heads.dim}).normal(3);
    Twin lse(DType::float32, {work.num_queries, heads.num}), delta(DType::float32, {work.num_queries, heads.num});
    Twin result(dtype, {work.num_queries, heads.num, heads.dim}), dq(dtype, {work.num_queries, heads.num, heads.dim});
    Twin dk(dtype, {work.num_keys, heads.num_kv, heads.dim}), dv(dtype, {work.num_keys, heads.num_kv, heads.dim});
    const Tolerance tolerance = tolerance_of_sums(dtype, dtype);
    check(std::to_string(tokens) + " tokens, window of " + std::to_string(window) + ", " + text_of(dtype) + " x " +
              std::to_string(head_dim),
          {in(x.q), in(x.k), in(x.v), in(dout), out(result, tolerance), out(lse, lse_tolerance),
           out(delta, {.of_largest = dtype == DType::bf16 ? 0.02 : 1e-5}), out(dq, tolerance), out(dk, tolerance),
           out(dv, tolerance)},
          [&](Backend& backend, auto of) {
            const auto plan = backend.plan_attention(work.spans, work.num_queries, work.num_keys);
            backend.run(AttentionForward{of(x.q), of(x.k), of(x.v), of(result), of(lse), x.scale, *plan});
            backend.run(AttentionDelta{of(delta), of(result), of(dout)});
            backend.run(AttentionBackward{of(x.q), of(x.k), of(x.v), of(dout), of(lse), of(delta), of(dq), of(dk),
                                          of(dv), x.scale, *plan});
          });
  }
}

/// Against loops in double precision: the CPU's kernels could share a misunderstanding.
BOOST_AUTO_TEST_CASE(gradients_are_those_of_the_formula) {
  for (const DType dtype : attention_dtypes()) {
    for (const unsigned seed : {1U, 2U, 3U, 4U}) {
      const Work work = random_work(seed, 160);
      const Heads heads{4, 2, 64};
      Inputs x(work, heads, dtype, {}, seed);
      Twin dout = Twin(dtype, {work.num_queries, heads.num, heads.dim}).normal(seed);
      const naive::Attention formula{heads.num, heads.num_kv, heads.dim, x.scale};
      naive::Values result(static_cast<std::size_t>(work.num_queries * heads.num * heads.dim)), dq(result.size());
      naive::Values lse(static_cast<std::size_t>(work.num_queries * heads.num));
      naive::Values dk(static_cast<std::size_t>(work.num_keys * heads.num_kv * heads.dim)), dv(dk.size());
      const naive::Values q = values_of(x.q), k = values_of(x.k), v = values_of(x.v), g = values_of(dout);
      formula.forward(result, lse, q, k, v, work.spans);
      formula.backward(dq, dk, dv, q, k, v, result, lse, g, work.spans);

      Backends& backends = Backends::get();
      Twin out_twin(DType::float32, {work.num_queries, heads.num, heads.dim});
      Twin dq_twin(DType::float32, {work.num_queries, heads.num, heads.dim});
      Twin dk_twin(DType::float32, {work.num_keys, heads.num_kv, heads.dim});
      Twin dv_twin(DType::float32, {work.num_keys, heads.num_kv, heads.dim});
      Twin lse_twin(DType::float32, {work.num_queries, heads.num});
      Twin delta = Twin(DType::float32, {work.num_queries, heads.num}).filled([&](auto r, auto h) {
        double sum = 0.0;
        for (std::int64_t d = 0; d < heads.dim; ++d) {
          const auto i = static_cast<std::size_t>((r * heads.num + h) * heads.dim + d);
          sum += result[i] * g[i];
        }
        return sum;
      });
      const std::vector<Twin*> twins = {&x.q,      &x.k,      &x.v,     &dout,    &delta,
                                        &out_twin, &lse_twin, &dq_twin, &dk_twin, &dv_twin};
      for (Twin* twin : twins) backends.copy(twin->device_bytes(), twin->bytes().data(), twin->bytes().size());
      const auto plan = backends.gpu().plan_attention(work.spans, work.num_queries, work.num_keys);
      backends.gpu().run(
          AttentionForward{x.q.gpu(), x.k.gpu(), x.v.gpu(), out_twin.gpu(), lse_twin.gpu(), x.scale, *plan});
      backends.gpu().run(AttentionBackward{x.q.gpu(), x.k.gpu(), x.v.gpu(), dout.gpu(), lse_twin.gpu(), delta.gpu(),
                                           dq_twin.gpu(), dk_twin.gpu(), dv_twin.gpu(), x.scale, *plan});
      for (Twin* twin : twins) backends.copy(twin->bytes().data(), twin->device_bytes(), twin->bytes().size());
      const auto compare_with = [&](Twin& twin, const naive::Values& expected, double tolerance, const char* what) {
        const naive::Values actual = values_of(twin);
        double largest = 1.0, worst = 0.0;  // gradients of queries that see one key are rounding of terms around 10
        for (const double value : expected) largest = std::max(largest, std::isfinite(value) ? std::abs(value) : 0.0);
        for (std::size_t i = 0; i < expected.size(); ++i) {
          if (actual[i] == expected[i]) continue;
          const double error = std::abs(actual[i] - expected[i]) / largest;
          worst = std::isnan(error) ? std::numeric_limits<double>::infinity() : std::max(worst, error);
        }
        BOOST_TEST(worst <= tolerance, what << ' ' << text_of(dtype) << ", seed " << seed << ": " << worst);
      };
      const double tolerance = dtype == DType::bf16 ? 0.004 : 5e-6;
      compare_with(out_twin, result, tolerance, "out");
      compare_with(lse_twin, lse, 1e-6, "lse");
      compare_with(dq_twin, dq, tolerance, "dq");
      compare_with(dk_twin, dk, tolerance, "dk");
      compare_with(dv_twin, dv, tolerance, "dv");
    }
  }
}

BOOST_AUTO_TEST_CASE(no_queries_or_no_keys) {
  for (const DType dtype : attention_dtypes()) {
    for (const auto& [num_queries, num_keys] : {std::pair<std::int64_t, std::int64_t>{0, 0}, {0, 140}, {140, 0}}) {
      const Work work{num_queries, num_keys, {}};
      const Heads heads{2, 1, 64};
      Inputs x(work, heads, dtype, {}, 1);
      Twin dout = Twin(dtype, {num_queries, heads.num, heads.dim}).normal(3);
      Twin delta = Twin(DType::float32, {num_queries, heads.num}).normal(4);
      Twin result(dtype, {num_queries, heads.num, heads.dim}), dq(dtype, {num_queries, heads.num, heads.dim});
      Twin dk(dtype, {num_keys, heads.num_kv, heads.dim}), dv(dtype, {num_keys, heads.num_kv, heads.dim});
      Twin lse(DType::float32, {num_queries, heads.num});
      check("empty " + text_of(dtype) + " " + std::to_string(num_queries) + " x " + std::to_string(num_keys),
            {in(x.q), in(x.k), in(x.v), in(dout), in(delta), out(result, {}), out(lse, {}), out(dq, {}), out(dk, {}),
             out(dv, {})},
            [&](Backend& backend, auto of) {
              const auto plan = backend.plan_attention({}, num_queries, num_keys);
              backend.run(AttentionForward{of(x.q), of(x.k), of(x.v), of(result), of(lse), x.scale, *plan});
              backend.run(AttentionBackward{of(x.q), of(x.k), of(x.v), of(dout), of(lse), of(delta), of(dq), of(dk),
                                            of(dv), x.scale, *plan});
            });
      lse.for_each(
          [&](auto r, auto c) { BOOST_TEST(get(lse.at(lse.bytes(), r, c), DType::float32) == minus_infinity); });
    }
  }
}

BOOST_AUTO_TEST_CASE(misuse_is_a_bug) {
  Backend& backend = Backends::get().gpu();
  const auto call = [&](Tensor q, Tensor k, Tensor v, Tensor result, const AttentionPlan& plan, bool merge) {
    Twin lse(DType::float32, {q.shape[0], q.shape[1]});
    backend.run(AttentionForward{q, k, v, result, lse.gpu(), 1.0F, plan, merge});
  };
  const Spans spans = {{0, 64, 0, 64, 0, 0}};
  const auto plan = backend.plan_attention(spans, 64, 64), other = backend.plan_attention(spans, 65, 64);
  Twin q = Twin(DType::bf16, {64, 2, 16}).normal(1), k = Twin(DType::bf16, {64, 1, 16}).normal(2);
  Twin odd(DType::bf16, {64, 2, 15}), wide(DType::bf16, {64, 2, 258}), integers(DType::int32, {64, 2, 16});
  Twin floats(DType::float32, {64, 2, 16});
  BOOST_CHECK_THROW(call(q.gpu(), k.gpu(), k.gpu(), q.gpu(), *other, false), std::logic_error);
  BOOST_CHECK_THROW(call(q.gpu(), k.gpu(), k.gpu(), q.gpu(), *plan, true), std::logic_error);
  BOOST_CHECK_THROW(call(odd.gpu(), odd.gpu(), odd.gpu(), odd.gpu(), *plan, false), std::logic_error);
  BOOST_CHECK_THROW(call(wide.gpu(), wide.gpu(), wide.gpu(), wide.gpu(), *plan, false), std::logic_error);
  BOOST_CHECK_THROW(call(integers.gpu(), integers.gpu(), integers.gpu(), integers.gpu(), *plan, false),
                    std::logic_error);
  BOOST_CHECK_THROW(call(floats.gpu(), k.gpu(), k.gpu(), floats.gpu(), *plan, false), std::logic_error);
  Twin out_twin(DType::bf16, {64, 2, 16}), dk(DType::bf16, {64, 1, 16}), dv(DType::float32, {64, 1, 16});
  Twin lse = Twin(DType::float32, {64, 2}).filled(0.0);
  const auto backward = [&](const Twin& dv_twin, bool adds_to_dq, bool adds_to_dkv) {
    backend.run(AttentionBackward{q.gpu(), k.gpu(), k.gpu(), q.gpu(), lse.gpu(), lse.gpu(), out_twin.gpu(), dk.gpu(),
                                  dv_twin.gpu(), 1.0F, *plan, adds_to_dq, adds_to_dkv});
  };
  BOOST_CHECK_THROW(backward(dv, false, false), std::logic_error);
  BOOST_CHECK_THROW(backward(dk, true, false), std::logic_error);
  BOOST_CHECK_THROW(backward(dk, false, true), std::logic_error);
  BOOST_CHECK_THROW((void)backend.plan_attention(spans, 63, 64), std::logic_error);
  BOOST_CHECK_THROW((void)backend.plan_attention(spans, 64, 63), std::logic_error);
  BOOST_CHECK_THROW((void)backend.plan_attention({{0, 64, 0, 64, 3, 0}}, 64, 64), std::logic_error);
  BOOST_CHECK_THROW((void)backend.plan_attention({{0, 32, 0, 64, 0, 0}}, 64, 64), std::logic_error);
  BOOST_CHECK_THROW((void)backend.plan_attention({{0, 40, 0, 40, 0, 0}, {30, 10, 40, 10, 0, 0}}, 64, 64),
                    std::logic_error);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
