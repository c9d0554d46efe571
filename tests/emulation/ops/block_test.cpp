// SPDX-License-Identifier: Apache-2.0
// SwiGLU, embedding and cross-entropy.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "emulation/ops/support.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(block_ops)

BOOST_AUTO_TEST_CASE(swiglu) {
  for (const DType dtype : compute_dtypes) {
    for (const Layout layout : layouts) {
      for (const auto& [tokens, size] : with_large<std::pair<std::int64_t, std::int64_t>>(
               {{0, 8}, {1, 1}, {3, 13}, {5, 64}, {2, 2056}}, {{301, 4864}, {60, 12288}})) {
        const std::string what = "swiglu " + text_of(dtype) + " " + std::to_string(tokens) + " x " +
                                 std::to_string(size) + ", gap " + std::to_string(layout.gap);
        Twin gate_up = Twin(dtype, {tokens, 2 * size}, layout).normal(1, 4.0), act(dtype, {tokens, size}, layout),
             dact = Twin(dtype, {tokens, size}, layout).normal(2), dgate_up(dtype, {tokens, 2 * size}),
             again(dtype, {tokens, size});
        check(what, {in(gate_up), in(dact), out(act), out(again), out(dgate_up)}, [&](Backend& ops, auto of) {
          ops.run(GatedForward{of(act), of(gate_up)});
          ops.run(GatedBackward{of(dgate_up), of(again), of(dact), of(gate_up)});
        });
        check(what + " in place", {out(gate_up), out(dact)}, [&](Backend& ops, auto of) {
          ops.run(GatedBackward{of(gate_up), of(dact), of(dact), of(gate_up)});
        });
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(swiglu_of_extreme_gates) {
  for (const DType dtype : compute_dtypes) {
    const std::vector<double> gates = {-1e30, -200, -88, -87, -30, 0, 30, 88, 1e30, std::nan("")};
    const auto size = static_cast<std::int64_t>(gates.size());
    Twin gate_up = Twin(dtype, {1, 2 * size}).filled([&](auto, auto c) {
      return c < size ? gates[static_cast<std::size_t>(c)] : 1.0;
    }),
         act(dtype, {1, size}), dact = Twin(dtype, {1, size}).filled(1.0), dgate_up(dtype, {1, 2 * size}),
         again(dtype, {1, size});
    const Tolerance tolerance{.of_largest = 1e-30, .of_itself = dtype == DType::bf16 ? 0.008 : 3e-6};
    check("swiglu of extreme gates",
          {in(gate_up), in(dact), out(act, tolerance), out(again, tolerance), out(dgate_up, tolerance)},
          [&](Backend& ops, auto of) {
            ops.run(GatedForward{of(act), of(gate_up)});
            ops.run(GatedBackward{of(dgate_up), of(again), of(dact), of(gate_up)});
          });
  }
}

BOOST_AUTO_TEST_CASE(embedding_forward) {
  for (const DType table_dtype : compute_dtypes) {
    for (const DType dtype : {DType::float32, table_dtype}) {
      for (const Layout layout : layouts) {
        for (const auto& [tokens, vocab, size] : with_large<std::tuple<std::int64_t, int, std::int64_t>>(
                 {{0, 5, 8}, {1, 1, 1}, {40, 11, 13}, {20, 30, 64}}, {{300, 1000, 4096}})) {
          Twin ids = Twin(DType::int32, {tokens}).uniform(1, -3, vocab + 103),
               table = Twin(table_dtype, {vocab, size}, layout).normal(2), x(dtype, {tokens, size}, layout);
          check("embedding_forward " + std::to_string(tokens) + " of " + std::to_string(vocab) + " x " +
                    std::to_string(size),
                {in(ids), in(table), out(x, {})}, [&](Backend& ops, auto of) {
                  ops.run(EmbeddingForward{of(x), of(ids), of(table), 50});
                });
        }
      }
    }
  }
}

namespace {

void compare_embedding_backward(std::int64_t tokens, int num_ids, std::int64_t vocab, std::int64_t size, DType dtype,
                                Layout layout) {
  // Some ids are those of other ranks; those of this one are some of its rows.
  constexpr std::int64_t vocab_begin = 1000;
  const auto last = static_cast<int>(vocab_begin + vocab - 1);
  Twin ids = Twin(DType::int32, {tokens})
                 .uniform(static_cast<unsigned>(tokens + num_ids), last - num_ids + 1, last + num_ids / 8),
       dout = Twin(dtype, {tokens, size}, layout).normal(2),
       dtable = Twin(DType::float32, {vocab, size}, {.gap = layout.gap}).normal(3);
  check("embedding_backward " + std::to_string(tokens) + " tokens, " + std::to_string(num_ids) + " ids, " +
            std::to_string(size) + " columns " + text_of(dtype),
        {in(ids), in(dout), out(dtable)}, [&](Backend& ops, auto of) {
          ops.run(EmbeddingBackward{of(dtable), of(ids), of(dout), vocab_begin});
        });
}

}  // namespace

BOOST_AUTO_TEST_CASE(embedding_backward) {
  for (const DType dtype : compute_dtypes) {
    for (const Layout layout : layouts) {
      compare_embedding_backward(0, 4, 7, 8, dtype, layout);
      compare_embedding_backward(1, 1, 1, 1, dtype, layout);
      compare_embedding_backward(3, 2, 300, 13, dtype, layout);
      compare_embedding_backward(70, 9, 9, 24, dtype, layout);
    }
    compare_embedding_backward(300, 1, 5, 8, dtype, {});     // one run over many pieces
    compare_embedding_backward(97, 1, 5, 8, dtype, {});      // whose last piece is one token
    compare_embedding_backward(300, 3, 5, 2056, dtype, {});  // more than a block of columns
    compare_embedding_backward(5000, 400, 600, 8, dtype, {});
  }
  compare_embedding_backward(2100, 70000, 70000, 8, DType::bf16, {});  // three digits
  if (has_large_sizes()) {
    compare_embedding_backward(66000, 150000, 151936, 896, DType::bf16, {});
    compare_embedding_backward((1 << 19) + 5000, 1000, 1200, 64, DType::bf16, {});  // sorted in two parts
  }
}

namespace {

void compare_cross_entropy(std::int64_t tokens, std::int64_t vocab, DType dtype, Layout layout, bool in_place,
                           const TokenLoss& loss = {}, float cap = 0.0F) {
  constexpr std::int64_t vocab_begin = 100;
  Twin logits = Twin(DType::float32, {tokens, vocab}, {.offset = layout.offset}).filled([&](auto t, auto c) {
    // Whose mean nll is infinite; and no capped logit is.
    const bool is_masked = t % 7 == 3 && c % 3 == 1 && loss.label_smoothing == 0.0 && cap == 0.0F;
    return is_masked ? -std::numeric_limits<double>::infinity() : 5 * std::sin(static_cast<double>(t * 31 + c * 17));
  }),
       max(DType::float32, {tokens}), partials(DType::float32, {loss.num_partials(), tokens}),
       targets = Twin(DType::int32, {tokens}).uniform(1, 98, static_cast<int>(vocab) + 101),
       weights = Twin(DType::float32, {tokens}).filled([](auto t, auto) {
         return t % 5 == 2 ? 0.0 : 0.5 + static_cast<double>(t % 3);
       }),
       metrics = Twin(DType::float64, {4}).filled(2.0), dlogits(dtype, {tokens, vocab}, layout);
  const auto chunk = [&](auto of) {
    return CrossEntropy{.logits = of(logits),
                        .max = of(max),
                        .partials = of(partials),
                        .targets = of(targets),
                        .loss_weights = of(weights),
                        .vocab_begin = vocab_begin,
                        .loss = loss,
                        .logit_cap = cap};
  };
  // A cap's hyperbolic tangents are another library's.
  const Tolerance of_max = cap > 0 ? tolerance_of(DType::float32) : Tolerance{};
  const std::string what =
      "cross_entropy " + std::to_string(tokens) + " x " + std::to_string(vocab) + " " + text_of(dtype);
  check(what,
        {in(targets), in(weights), out(logits), out(max, of_max), out(partials), out(dlogits),
         out(metrics, {.of_itself = 3e-6})},
        [&](Backend& ops, auto of) {
          if (cap > 0) ops.run(SoftCap{of(logits), cap});
          ops.run(CrossEntropyMax{chunk(of)});
          ops.run(CrossEntropyPartials{chunk(of)});
          if (in_place) {
            ops.run(CrossEntropyFinish{chunk(of), of(logits), 0.01, of(metrics)});
          } else {
            ops.run(CrossEntropyFinish{chunk(of), of(dlogits), 0.01, of(metrics)});
            ops.run(CrossEntropyFinish{chunk(of), Tensor(), 0.0, of(metrics)});
          }
        });
}

}  // namespace

BOOST_AUTO_TEST_CASE(cross_entropy) {
  for (const DType dtype : compute_dtypes) {
    for (const Layout layout : layouts) {
      for (const auto& [tokens, vocab] : with_large<std::pair<std::int64_t, std::int64_t>>(
               {{0, 8}, {1, 1}, {11, 37}, {6, 272}, {3, 2500}}, {{30, 151936}, {21, 128257}})) {
        compare_cross_entropy(tokens, vocab, dtype, layout, false);
        if (vocab > 1) {
          compare_cross_entropy(tokens, vocab, dtype, layout, false, {.dft = true});
          compare_cross_entropy(tokens, vocab, dtype, layout, false, {}, /*cap=*/4.0F);
          compare_cross_entropy(tokens, vocab, dtype, layout, false, {.label_smoothing = 0.1, .vocab = 2 * vocab});
        }
      }
    }
  }
  compare_cross_entropy(515, 4, DType::bf16, {}, false);  // more tokens than a block has threads
  compare_cross_entropy(11, 272, DType::float32, {}, true);
  compare_cross_entropy(11, 37, DType::float32, {}, true);
}

// The scale alone exceeds float32, its product with the weight does not.
BOOST_AUTO_TEST_CASE(cross_entropy_with_a_huge_scale) {
  Twin logits = Twin(DType::float32, {2, 8}).normal(1), max(DType::float32, {2}), partials(DType::float32, {3, 2}),
       targets = Twin(DType::int32, {2}).filled(3.0), weights = Twin(DType::float32, {2}).filled(1e-30),
       metrics = Twin(DType::float64, {4}).filled(0.0), dlogits(DType::float32, {2, 8});
  check("cross_entropy with a huge scale",
        {out(logits), out(max), out(partials), in(targets), in(weights), out(dlogits)}, [&](Backend& ops, auto of) {
          const CrossEntropy chunk{of(logits), of(max), of(partials), of(targets), of(weights), 0};
          ops.run(CrossEntropyMax{chunk});
          ops.run(CrossEntropyPartials{chunk});
          ops.run(CrossEntropyFinish{chunk, of(dlogits), 1e45, of(metrics)});
        });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
