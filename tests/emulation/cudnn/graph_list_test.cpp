// SPDX-License-Identifier: Apache-2.0
// Which graphs are compiled ahead of a run: those of the calls of a micro-batch, for all documents to come.
#include "ops/cuda/cudnn/graph_list.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <vector>

#include "emulation/cudnn/layer.hpp"

namespace sft::ops::testing {

namespace {

using cuda::cudnn::GraphShape;

constexpr std::int64_t num_tokens = 400;
alignas(16) std::byte place;  ///< of tensors that nothing reads

/// The graphs of both passes over these spans, with results and gradients of this type, where these documents are to
/// come.
std::vector<GraphShape> graphs_of(const Spans& spans, DType out, const std::vector<Spans>& to_come) {
  constexpr std::size_t version = 92801;
  cuda::cudnn::GraphList list(Backends::get().gpu().stream(), version, /*in_order=*/true);
  for (const Spans& other : to_come) list.expect_attention(other, num_tokens, num_tokens);
  const Heads heads{2, 1, 32};
  const auto rows = [](DType dtype, std::int64_t num, std::int64_t dim) {
    return Tensor(&place, dtype, {num_tokens, num, dim});
  };
  const Tensor keys = rows(DType::bf16, heads.num_kv, heads.dim);
  const auto plan = list.plan_attention(spans, num_tokens, num_tokens);
  list.run(AttentionForward{.q = rows(DType::bf16, heads.num, heads.dim),
                            .k = keys,
                            .v = keys,
                            .out = rows(out, heads.num, heads.dim),
                            .lse = Tensor(nullptr, DType::float32, {num_tokens, heads.num}),
                            .scale = 0.125F,
                            .plan = *plan});
  const Tensor queries = rows(DType::bf16, heads.num, heads.dim), gradient = rows(out, heads.num_kv, heads.dim);
  list.run(AttentionBackward{.q = queries,
                             .k = keys,
                             .v = keys,
                             .dout = queries,
                             .lse = Tensor(nullptr, DType::float32, {num_tokens, heads.num}),
                             .delta = Tensor(nullptr, DType::float32, {num_tokens, heads.num}),
                             .dq = rows(out, heads.num, heads.dim),
                             .dk = gradient,
                             .dv = gradient,
                             .scale = 0.125F,
                             .plan = *plan,
                             .out = queries});
  return list.shapes();
}

/// How many are of the pass.
std::ptrdiff_t num_of(const std::vector<GraphShape>& shapes, bool is_backward, bool are_rectangles) {
  return std::ranges::count_if(shapes, [&](const GraphShape& shape) {
    return shape.is_backward() == is_backward && shape.is_rectangle() == are_rectangles;
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(graphs_ahead)

BOOST_AUTO_TEST_CASE(documents_to_come_have_graphs) {
  const std::vector<GraphShape> shapes =
      graphs_of(documents_of({400}), DType::bf16, {documents_of({200, 200}), documents_of({50, 50, 50, 50, 200})});
  for (const std::int64_t documents : {2, 8}) {  // a graph of each pass
    BOOST_TEST(std::ranges::count(shapes, documents, &GraphShape::documents) == 2, documents << " documents");
  }
  for (const bool is_backward : {false, true}) BOOST_TEST(num_of(shapes, is_backward, /*are_rectangles=*/true) == 0);
}

// The second chunk of a rank's document sees the first one, whose keys are no document's of its own.
BOOST_AUTO_TEST_CASE(keys_before_a_chunk_have_a_graph) {
  const Spans squares{{0, 200, 0, 200, 0, 0}, {200, 200, 200, 200, 0, 0}};
  Spans ring = squares;
  ring.push_back({200, 200, 0, 200, 5000, 0});
  for (const bool is_backward : {false, true}) {
    BOOST_TEST_CONTEXT((is_backward ? "backward" : "forward")) {
      const auto of_ring = graphs_of(ring, DType::float32, {squares});
      BOOST_TEST(num_of(of_ring, is_backward, /*are_rectangles=*/true) == 1);
      BOOST_TEST(num_of(of_ring, is_backward, /*are_rectangles=*/false) == 1);
      BOOST_TEST(num_of(graphs_of(squares, DType::float32, {squares}), is_backward, /*are_rectangles=*/true) == 0);
      BOOST_TEST(num_of(graphs_of(ring, DType::bf16, {squares}), is_backward, /*are_rectangles=*/false) == 0);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
