// SPDX-License-Identifier: Apache-2.0
// What attention over the sequence sends, counted without sending: that of the schedule and no more.

#include <boost/test/unit_test.hpp>

#include "sft/comm/traffic.hpp"
#include "sft/device/factory.hpp"
#include "sft/ops/null_backend.hpp"
#include "sft/parallel/sequence_attention.hpp"

namespace sft::parallel {

namespace {

using sequence::AttentionKind;
using sequence::AttentionMethod;

constexpr int sent_sp_size = 4;
constexpr std::int64_t row_tokens = 128, rank_tokens = row_tokens / sent_sp_size, chunk_tokens = rank_tokens / 2;
constexpr std::int64_t sent_heads = 4, sent_head_dim = 8;

/// Bytes that a forward and a backward pass of each kind send on sp rank `rank` for one document of all
/// tokens.
std::vector<std::int64_t> sent_bytes(const AttentionMethod& method, const sequence::AttentionWindows& windows, int rank,
                                     DType dtype = DType::float32,
                                     ops::AttentionKernels kernels = ops::AttentionKernels::own) {
  const SequenceShape shape{.tokens = rank_tokens,
                            .document_tokens = row_tokens,
                            .q_heads = sent_heads,
                            .kv_heads = sent_heads,
                            .head_dim = sent_head_dim,
                            .compute = dtype,
                            .num_kinds = windows.size(),
                            .kernels = kernels};
  const auto buffers = make_sequence_buffers(shape, sent_sp_size, method);
  device::Arena arena;
  buffers->lay_out(arena);
  const auto tensor = [&](std::int64_t heads) { return take(arena, dtype, {rank_tokens, heads, sent_head_dim}); };
  const SequenceAttention::Heads heads{tensor(sent_heads), tensor(sent_heads), tensor(sent_heads)};
  const Tensor out = tensor(sent_heads), lse = take(arena, DType::float32, {rank_tokens, sent_heads});
  const auto device = device::make_null_device();
  const auto compute = device->make_stream(), ring = device->make_stream();
  const auto backend = std::make_unique<ops::NullBackend>(*compute);
  comm::TrafficCounter counter;
  const auto attention =
      buffers->make_attention(comm::planned_group(rank, sent_sp_size, "sp"), *device, *backend, counter, *ring);
  attention->set_schedules(
      sequence::make_schedules(method, windows, {{row_tokens}}, {row_tokens, sent_sp_size}, SpRank::from(rank)));
  std::vector<std::int64_t> bytes;
  for (const AttentionKind kind : windows.indices()) {
    counter.reset();
    attention->forward(kind, heads, out, lse);
    attention->backward(kind, heads, out, lse, out, heads);
    bytes.push_back(counter.sent().empty() ? 0 : counter.sent().front().bytes);
  }
  return bytes;
}

/// Keys and values of so many tokens, once in each pass, and gradients of those that came in.
std::int64_t sent_kv_bytes(std::int64_t tokens, std::int64_t received_tokens) {
  constexpr auto row_bytes = 2 * sent_heads * sent_head_dim * static_cast<std::int64_t>(sizeof(float));
  return (2 * tokens + received_tokens) * row_bytes;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(sequence_traffic)

// Chunks of 16 tokens; rank 1 has 1 and 6. A window of 16 reaches into the chunk before, one of 1 nowhere.
BOOST_AUTO_TEST_CASE(a_ring_sends_chunks_to_ranks_that_see_them) {
  const auto bytes = sent_bytes({}, {0, chunk_tokens, 1}, 1);
  // Both chunks go to rank 0, for chunk 7, and chunk 1 to ranks 2 and 3. Chunk 0 comes in, and both of ranks 2 and 3.
  BOOST_TEST(bytes[0] == sent_kv_bytes(4 * chunk_tokens, 5 * chunk_tokens));
  BOOST_TEST(bytes[1] ==
             2 * sent_kv_bytes(chunk_tokens, chunk_tokens));  // chunk 1 for rank 2's 2, chunk 6 for rank 0's 7
  BOOST_TEST(bytes[2] == 0);
}

BOOST_AUTO_TEST_CASE(chunks_that_no_window_reaches_are_not_gathered) {
  const auto bytes = sent_bytes({AttentionMethod::Keys::all_gather, 1}, {0, chunk_tokens, 1}, 1);
  BOOST_TEST(bytes[1] == 2 * sent_kv_bytes(chunk_tokens, chunk_tokens));
  BOOST_TEST(bytes[0] > bytes[1]);
  BOOST_TEST(bytes[2] == 0);
}

BOOST_AUTO_TEST_CASE(heads_are_exchanged_whatever_the_window) {
  const auto ulysses = sent_bytes({AttentionMethod::Keys::ring, 4}, {0, 1}, 1);
  BOOST_TEST(ulysses[0] == ulysses[1]);
  // Between two groups of neighbours a ring runs, with chunks of 32 tokens.
  const auto hybrid = sent_bytes({AttentionMethod::Keys::ring, 2}, {0, 2, 1}, 1);
  BOOST_TEST(hybrid[0] > hybrid[1]);
  BOOST_TEST(hybrid[1] > hybrid[2]);
}

// A head of each of 4 ranks: the output of a token goes to it in place of one float32 number, the sum over its output
// and gradient; so it is within groups with a ring between them. float32 has no library for its backward pass.
BOOST_AUTO_TEST_CASE(the_output_goes_to_ranks_whose_library_reads_it) {
  using ops::AttentionKernels;
  const auto sent = [](int ulysses_size, DType compute, AttentionKernels kernels) {
    return sent_bytes({AttentionMethod::Keys::ring, ulysses_size}, {0}, 1, compute, kernels).front();
  };
  const std::int64_t own = sent(4, DType::bf16, AttentionKernels::own);
  const std::int64_t bf16_row = sent_head_dim * static_cast<std::int64_t>(size_of(DType::bf16));
  const auto delta = static_cast<std::int64_t>(sizeof(float));
  BOOST_TEST(own == 3 * rank_tokens * ((4 + 4 + 3) * bf16_row + delta));  // q, k, v, out; q, k, v, dout; dq, dk, dv
  BOOST_TEST(sent(4, DType::bf16, AttentionKernels::cudnn) == own + 3 * rank_tokens * (bf16_row - delta));
  BOOST_TEST(sent(4, DType::bf16, AttentionKernels::cudnn_forward) == own);
  BOOST_TEST(sent(2, DType::bf16, AttentionKernels::cudnn) ==
             sent(2, DType::bf16, AttentionKernels::own) + 2 * rank_tokens * (bf16_row - delta));
  BOOST_TEST(sent(4, DType::float32, AttentionKernels::cudnn) == sent(4, DType::float32, AttentionKernels::own));
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::parallel
