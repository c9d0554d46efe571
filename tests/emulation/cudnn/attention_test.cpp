// SPDX-License-Identifier: Apache-2.0
// Attention through cuDNN against the CPU's, whatever the heads and documents are.

#include <boost/test/unit_test.hpp>
#include <random>
#include <string>
#include <vector>

#include "emulation/cudnn/layer.hpp"
#include "emulation/cudnn/loops.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(cudnn)

BOOST_AUTO_TEST_CASE(gives_what_the_cpu_gives) {
  const std::vector<Heads> all_heads = {{2, 2, 32}, {4, 2, 64}, {6, 1, 80}, {2, 1, 128}, {8, 2, 16}, {1, 1, 256}};
  unsigned seed = 0;
  for (const Heads heads : all_heads) {
    const std::string what =
        std::to_string(heads.num) + "/" + std::to_string(heads.num_kv) + " x " + std::to_string(heads.dim);
    for (const Layout layout : {Layout{}, Layout{.gap = 16}}) {
      Layer whole(heads, 150, seed += 10, layout);
      check_layer(what + ", documents", whole, documents_of({40, 1, 77, 32}));
      Layer tail(heads, 70, seed += 10, layout);
      check_layer(what + ", documents between rows of none", tail, documents_of({13, 20, 3}, 9));
    }
  }
}

BOOST_AUTO_TEST_CASE(one_document_longer_than_a_block) {
  Layer layer({2, 1, 64}, 140, 3);
  check_layer("one document", layer, documents_of({140}));
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
