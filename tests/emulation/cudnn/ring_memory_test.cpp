// SPDX-License-Identifier: Apache-2.0
// What is planned for cuDNN's backward pass of a ring, beside what its calls ask for.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstddef>
#include <cstdint>

#include "emulation/cudnn/layer.hpp"
#include "ops/cuda/cudnn/attention.hpp"
#include "ops/cuda/cudnn/working_memory.hpp"

namespace sft::ops::cuda::cudnn {

using testing::documents_of;
using testing::Heads;

namespace {

alignas(16) std::byte place;  ///< of tensors that nothing reads

}  // namespace

BOOST_AUTO_TEST_SUITE(cudnn_memory)

// In a ring: gradients in bf16 and what the graph works with, of whole documents, whose calls are the largest.
BOOST_AUTO_TEST_CASE(gradients_of_a_ring_have_their_memory_planned) {
  for (const std::int64_t tokens : {std::int64_t{500}, rectangle_rows(), std::int64_t{20'000}}) {
    for (const Heads heads : {Heads{8, 2, 64}, Heads{4, 4, 128}}) {
      const auto rows = [&](DType dtype, std::int64_t num) { return Tensor(&place, dtype, {tokens, num, heads.dim}); };
      const Tensor numbers(&place, DType::float32, {tokens, heads.num});
      const auto plan = testing::Backends::get().gpu().plan_attention({}, 0, 0);
      const Tensor queries = rows(DType::bf16, heads.num), keys = rows(DType::bf16, heads.num_kv);
      AttentionBackward call{.q = queries,
                             .k = keys,
                             .v = keys,
                             .dout = queries,
                             .lse = numbers,
                             .delta = numbers,
                             .dq = rows(DType::float32, heads.num),
                             .dk = rows(DType::float32, heads.num_kv),
                             .dv = rows(DType::float32, heads.num_kv),
                             .scale = 1.0F,
                             .plan = *plan,
                             .out = queries};
      const auto found = find_documents(documents_of({tokens}), tokens, tokens);
      const auto of_documents =
          backward_shape(call, found->sizes(tokens, tokens), /*version=*/92801, /*in_order=*/true);
      call.accumulate_dq = true;
      const auto of_rectangles = rectangles_backward_shape(call, /*version=*/92801, /*in_order=*/true);
      BOOST_TEST_REQUIRE((of_documents && of_rectangles));
      const auto padded = [](std::size_t bytes) { return (bytes + 255) / 256 * 256; };
      const auto asked = [&](const GraphShape& s, std::int64_t q_rows) {
        return padded(q_rows * s.dq_row * 2) + padded(tokens * s.dk_row * 2) + padded(tokens * s.dv_row * 2) +
               padded(backward_bytes({.tokens = s.tokens,
                                      .key_tokens = s.key_tokens,
                                      .q_heads = s.q_heads,
                                      .kv_heads = s.kv_heads,
                                      .head_dim = s.head_dim,
                                      .dq_row = s.dq_row}));
      };
      AttentionNeeds needs{
          .library = {
              .tokens = tokens, .q_heads = heads.num, .kv_heads = heads.num_kv, .head_dim = heads.dim, .merges = true}};
      const auto planned = [&](bool has_backward) {
        needs.library.has_backward = has_backward;
        return pool_bytes(needs) - 3 * rectangle_lists_bytes(has_backward);
      };
      BOOST_TEST(planned(true) == planned(false) - padded(forward_bytes) + asked(*of_documents, tokens));
      BOOST_TEST(asked(*of_rectangles, std::min(tokens, rectangle_rows())) <= asked(*of_documents, tokens));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::cuda::cudnn
