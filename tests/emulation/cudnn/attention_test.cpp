// SPDX-License-Identifier: Apache-2.0
// Attention through cuDNN against loops, whatever the heads and documents are.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <random>
#include <string>
#include <vector>

#include "emulation/cudnn/layer.hpp"
#include "emulation/cudnn/loops.hpp"

namespace sft::ops::testing {

namespace {

double element(Twin& twin, std::int64_t row, std::int64_t column) {
  return get(twin.at(twin.bytes(), row, column), twin.cpu().dtype);
}

/// Puts element_at(row, column) in the twin's memory on the host.
template <class ElementAt>
void expect(Twin& twin, const ElementAt& element_at) {
  twin.for_each([&](std::int64_t row, std::int64_t column) {
    put(twin.at(twin.bytes(), row, column), twin.cpu().dtype, element_at(row, column));
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cudnn)

BOOST_AUTO_TEST_CASE(gives_what_loops_give) {
  const std::vector<Heads> all_heads = {{2, 2, 32}, {4, 2, 64}, {6, 1, 80}, {2, 1, 128}, {8, 2, 16}, {1, 1, 256}};
  unsigned seed = 0;
  for (const Heads heads : all_heads) {
    const std::string what =
        std::to_string(heads.num) + "/" + std::to_string(heads.num_kv) + " x " + std::to_string(heads.dim);
    for (const Layout layout : {Layout{}, Layout{.gap = 16}}) {
      Layer whole(heads, 150, seed += 10, layout);
      check_by_loops(what + ", documents", whole, documents_of({40, 1, 77, 32}));
      Layer tail(heads, 70, seed += 10, layout);
      check_by_loops(what + ", documents between rows of none", tail, documents_of({13, 20, 3}, 9));
    }
  }
}

BOOST_AUTO_TEST_CASE(one_document_longer_than_a_block) {
  Layer layer({2, 1, 64}, 140, 3);
  check_by_loops("one document", layer, documents_of({140}));
}

// Windows of one token, shorter and longer than documents, and such as end at the border of a block.
BOOST_AUTO_TEST_CASE(windows) {
  unsigned seed = 100;
  for (const Heads heads : {Heads{4, 2, 64}, Heads{2, 2, 32}, Heads{8, 1, 16}, Heads{1, 1, 256}}) {
    const std::string what =
        std::to_string(heads.num) + "/" + std::to_string(heads.num_kv) + " x " + std::to_string(heads.dim);
    for (const std::int64_t window : {1, 2, 33, 64, 76, 500}) {
      Layer whole(heads, 150, seed += 10);
      check_by_loops(what + ", a window of " + std::to_string(window), whole, documents_of({40, 1, 77, 32}, 0, window));
    }
    Layer tail(heads, 70, seed += 10, Layout{.gap = 16});
    check_by_loops(what + ", a window and rows of none", tail, documents_of({13, 20, 3}, 9, 5));
  }
  Layer one({2, 1, 64}, 140, seed + 10);
  check_by_loops("one document, a window of a block", one, documents_of({140}, 0, 128));
}

// Packed at random, as many tokens of a document as chance has it, and any window.
BOOST_AUTO_TEST_CASE(random_windows) {
  std::mt19937 random(7);
  const auto below = [&](std::int64_t end) { return static_cast<std::int64_t>(random() % end); };
  for (unsigned run = 0; run < 8; ++run) {
    std::vector<std::int64_t> lengths;
    std::int64_t tokens = below(9);
    const std::int64_t begin = tokens;
    while (tokens < 120) {
      lengths.push_back(below(4) == 0 ? 1 : 1 + below(90));
      tokens += lengths.back();
    }
    const std::int64_t window = 1 + below(100);
    Layer layer({4, 2, 32}, tokens + below(9), 1000 + 10 * run);
    check_by_loops("run " + std::to_string(run) + ", a window of " + std::to_string(window), layer,
                   documents_of(lengths, begin, window));
  }
}

// As ranks that exchange heads have them: all that comes in is columns of one tensor, the gradient of queries is one of
// its own, those of keys and values are columns of one, in float32 where heads have replicas; or they are apart.
BOOST_AUTO_TEST_CASE(exchanged_heads) {
  unsigned seed = 2000;
  for (const Heads heads : {Heads{4, 2, 64}, Heads{1, 1, 32}, Heads{3, 1, 16}}) {
    for (const DType dtype : {DType::bf16, DType::float32}) {
      for (const bool are_apart : {false, true}) {
        const std::int64_t window = are_apart ? 0 : 20;
        const std::int64_t h = heads.num, k = heads.num_kv, tokens = 150;
        Layer layer(heads, tokens, seed += 10);
        Twin brought(DType::bf16, {tokens, 3 * h + 2 * k, heads.dim}), dq(DType::bf16, {tokens, h, heads.dim});
        Twin dkv = are_apart ? Twin(dtype, {2 * tokens, k, heads.dim}) : Twin(dtype, {tokens, 2 * k, heads.dim});
        std::vector<Operand> results = forward_results(layer);
        results.insert(results.end(),
                       {out(brought, outputs_by_loops), out(dq, gradients_by_loops), out(dkv, gradients_by_loops)});
        const Spans spans = documents_of({40, 1, 77, 23}, 5, window);
        LibraryCalls calls;
        const std::string what =
            std::to_string(h) + "/" + std::to_string(k) + ", " + text_of(dtype) + (are_apart ? ", apart" : "");
        const auto both_passes = [&](Backend& backend, auto of) {
          const LibraryCalls before = backend.library_calls();
          const auto plan = backend.plan_attention(spans, tokens, tokens);
          layer.forward(backend, of, *plan);
          const Tensor all = of(brought), keys = of(dkv);
          backend.run(Copy{heads_of(all, 0, h + 2 * k), of(layer.qkv)});
          backend.run(Copy{heads_of(all, h + 2 * k, h), of(layer.dout)});
          backend.run(Copy{heads_of(all, 2 * h + 2 * k, h), of(layer.out)});
          const Tensor dout = heads_of(all, h + 2 * k, h), output = heads_of(all, 2 * h + 2 * k, h);
          backend.run(AttentionDelta{of(layer.delta), output, dout});
          backend.run(AttentionBackward{.q = layer.q(all),
                                        .k = layer.k(all),
                                        .v = layer.v(all),
                                        .dout = dout,
                                        .lse = of(layer.lse),
                                        .delta = of(layer.delta),
                                        .dq = of(dq),
                                        .dk = are_apart ? keys.rows(0, tokens) : heads_of(keys, 0, k),
                                        .dv = are_apart ? keys.rows(tokens, tokens) : heads_of(keys, k, k),
                                        .scale = layer.scale,
                                        .plan = *plan,
                                        .out = output});
          calls = {std::max(calls.forward, backend.library_calls().forward - before.forward),
                   std::max(calls.backward, backend.library_calls().backward - before.backward)};
        };
        check_results(what, results, {in(layer.qkv), in(layer.dout)}, both_passes, [&] {
          Loops(layer).run(spans);
          const std::int64_t of_queries = h * heads.dim, of_keys = k * heads.dim, of_all = of_queries + 2 * of_keys;
          expect(dq, [&](std::int64_t row, std::int64_t column) { return element(layer.dqkv, row, column); });
          expect(dkv, [&](std::int64_t row, std::int64_t column) {
            return element(layer.dqkv, row % tokens, of_queries + column + (row < tokens ? 0 : of_keys));
          });
          expect(brought, [&](std::int64_t row, std::int64_t column) {
            if (column < of_all) return element(layer.qkv, row, column);
            column -= of_all;
            return column < of_queries ? element(layer.dout, row, column)
                                       : element(layer.out, row, column - of_queries);
          });
        });
        BOOST_TEST(calls.forward == 1, what);
        BOOST_TEST(calls.backward == (find_attention_library().has_backward ? 1 : 0), what);
      }
    }
  }
}

// Those of real models, where a GPU is fast enough: documents of several blocks, lengths that no block divides.
BOOST_AUTO_TEST_CASE(heads_of_models) {
  if (!has_large_sizes()) return;
  for (const Heads heads : {Heads{32, 8, 128}, Heads{14, 2, 64}, Heads{16, 8, 256}}) {
    const std::string what = std::to_string(heads.num) + " heads of " + std::to_string(heads.dim);
    Layer packed(heads, 1500, 7);
    check_layer(what + ", packed", packed, documents_of({700, 1, 129, 128, 400, 100}));
    Layer one(heads, 1025, 9);
    check_layer(what + ", one document", one, documents_of({1025}));
    Layer windowed(heads, 1500, 11);
    check_layer(what + ", a window", windowed, documents_of({700, 1, 129, 128, 400, 100}, 0, 200));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
