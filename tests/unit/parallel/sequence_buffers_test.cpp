// SPDX-License-Identifier: Apache-2.0
// The memory of attention over the sequence, from its shapes alone.

#include <boost/test/unit_test.hpp>

#include "sft/parallel/sequence_attention.hpp"
#include "unit/parallel/sample_units.hpp"

namespace sft::parallel {

namespace {

using sequence::AttentionMethod;

constexpr std::int64_t num_tokens = 123, document_tokens = 41, num_q_heads = 6, num_kv_heads = 2, head_dim = 24;

SequenceShape shape_of(DType compute) {
  return {.tokens = num_tokens,
          .document_tokens = document_tokens,
          .q_heads = num_q_heads,
          .kv_heads = num_kv_heads,
          .head_dim = head_dim,
          .compute = compute};
}

std::size_t planned_bytes(DType compute, int sp_size, const AttentionMethod& method = {}) {
  device::Arena sizing;
  make_sequence_buffers(shape_of(compute), sp_size, method)->lay_out(sizing);
  return sizing.used_bytes();
}

/// A (T, H) tensor, float32.
std::size_t delta_bytes() { return test::bytes_of(num_tokens * num_q_heads, DType::float32); }
/// Keys and values of all tokens.
std::size_t kv_bytes(DType dtype) { return test::bytes_of(2 * num_tokens * num_kv_heads * head_dim, dtype); }

}  // namespace

BOOST_AUTO_TEST_SUITE(sequence_buffers)

BOOST_AUTO_TEST_CASE(whole_rows_need_one_number_for_each_head_of_a_token) {
  BOOST_TEST(planned_bytes(DType::float32, 1) == delta_bytes());
  BOOST_TEST(planned_bytes(DType::bf16, 1) == delta_bytes());
}

BOOST_AUTO_TEST_CASE(whole_rows_sum_low_precision_gradients_in_the_workspace) {
  const ops::AttentionNeeds low = make_sequence_buffers(shape_of(DType::bf16), 1, {})->attention_needs();
  BOOST_TEST(low.num_keys == num_tokens);
  BOOST_TEST(low.longest_lane == document_tokens);
  BOOST_TEST(low.num_kv_heads == num_kv_heads);
  BOOST_TEST(low.head_dim == head_dim);
  BOOST_TEST(make_sequence_buffers(shape_of(DType::float32), 1, {})->attention_needs().num_keys == 0);
}

BOOST_AUTO_TEST_CASE(a_ring_holds_keys_and_values_that_are_sent_received_and_returned) {
  // What is sent, and two each of: keys and values received, their gradients formed here, those received back.
  const std::size_t float32 = kv_bytes(DType::float32);
  BOOST_TEST(planned_bytes(DType::float32, 2) == delta_bytes() + float32 + 2 * (float32 + float32 + float32));
  // Keys and values travel in bf16; all that is summed is float32, the output's and the queries' gradient too.
  const std::size_t bf16 = kv_bytes(DType::bf16);
  const std::size_t sums = test::bytes_of(num_tokens * num_q_heads * head_dim, DType::float32) + float32;
  BOOST_TEST(planned_bytes(DType::bf16, 2) == delta_bytes() + bf16 + sums + 2 * (bf16 + float32 + float32));
}

BOOST_AUTO_TEST_CASE(a_ring_of_more_ranks_takes_no_more) {
  for (const DType compute : {DType::float32, DType::bf16}) {
    BOOST_TEST(planned_bytes(compute, 16) == planned_bytes(compute, 2));
    BOOST_TEST(make_sequence_buffers(shape_of(compute), 16, {})->attention_needs().num_keys == 0);
  }
}

BOOST_AUTO_TEST_CASE(gathered_heads_are_held_for_the_whole_row) {
  // Two ranks gather one of two heads at a time: two groups of gathered keys and values and of their gradients, those
  // that come back from the other rank, and two numbers a query and token.
  const AttentionMethod all_gather{AttentionMethod::Keys::all_gather, 1};
  for (const DType compute : {DType::float32, DType::bf16}) {
    const std::int64_t head = 2 * num_tokens * head_dim;  // keys and values of a rank's tokens
    const std::size_t queries = test::bytes_of(num_tokens * num_q_heads / 2, DType::float32);
    BOOST_TEST(planned_bytes(compute, 2, all_gather) ==
               2 * (test::bytes_of(2 * head, compute) + test::bytes_of(2 * head, DType::float32)) +
                   test::bytes_of(head, DType::float32) + 2 * queries);
    BOOST_TEST(make_sequence_buffers(shape_of(compute), 2, all_gather)->attention_needs().num_keys == 0);
  }
}

BOOST_AUTO_TEST_CASE(exchanged_heads_are_held_for_all_tokens) {
  const AttentionMethod ulysses{AttentionMethod::Keys::ring, 2};
  for (const DType compute : {DType::float32, DType::bf16}) {
    // Of each of two ranks: 3 query heads and 1 key/value head of twice the tokens.
    const std::int64_t fused = num_tokens * (2 * 3 + 2 * 1) * head_dim, dkv = num_tokens * 2 * head_dim;
    const std::size_t expected = delta_bytes() +  // of attention to all tokens
                                 test::bytes_of(fused, compute) + test::bytes_of(2 * fused, compute) +
                                 test::bytes_of(2 * num_tokens * 3 * head_dim, compute) + delta_bytes() +
                                 test::bytes_of(num_tokens * 3, DType::float32) + test::bytes_of(2 * dkv, compute) +
                                 test::bytes_of(dkv, compute);
    BOOST_TEST(planned_bytes(compute, 2, ulysses) == expected);
  }
  const ops::AttentionNeeds low = make_sequence_buffers(shape_of(DType::bf16), 2, ulysses)->attention_needs();
  BOOST_TEST(low.num_keys == 2 * num_tokens);
  BOOST_TEST(low.longest_lane == document_tokens);
  BOOST_TEST(low.num_kv_heads == 1);
}

BOOST_AUTO_TEST_CASE(gradients_of_replicated_heads_are_summed_in_float32) {
  // 6 ranks with one of 6 query heads each, and 2 key/value heads.
  const AttentionMethod ulysses{AttentionMethod::Keys::ring, 6};
  BOOST_TEST(make_sequence_buffers(shape_of(DType::bf16), 6, ulysses)->attention_needs().num_keys == 0);
  const AttentionMethod hybrid{AttentionMethod::Keys::ring, 2};
  BOOST_TEST(make_sequence_buffers(shape_of(DType::bf16), 6, hybrid)->attention_needs().num_keys == 0);
}

BOOST_AUTO_TEST_CASE(a_library_may_get_a_ring) {
  const auto needs_of = [](ops::AttentionKernels kernels, DType compute, int sp_size, const AttentionMethod& method) {
    SequenceShape shape = shape_of(compute);
    shape.kernels = kernels;
    return make_sequence_buffers(shape, sp_size, method)->attention_needs();
  };
  for (const auto kernels : {ops::AttentionKernels::cudnn_forward, ops::AttentionKernels::cudnn}) {
    const ops::AttentionNeeds ring = needs_of(kernels, DType::bf16, 4, {});
    BOOST_TEST(ring.library.tokens == num_tokens);
    BOOST_TEST(ring.library.q_heads == num_q_heads);
    BOOST_TEST(ring.library.kv_heads == num_kv_heads);
    BOOST_TEST(ring.library.head_dim == head_dim);
    BOOST_TEST(ring.library.has_backward == (kernels == ops::AttentionKernels::cudnn));
    BOOST_TEST(ring.library.merges);
    BOOST_TEST(ring.num_plans == 2 * 4 + 1);
    const ops::AttentionNeeds hybrid = needs_of(kernels, DType::bf16, 6, {AttentionMethod::Keys::ring, 2});
    BOOST_TEST(hybrid.library.tokens == 2 * num_tokens);
    BOOST_TEST(hybrid.library.q_heads == num_q_heads / 2);
    BOOST_TEST(hybrid.library.has_backward == (kernels == ops::AttentionKernels::cudnn));
    BOOST_TEST(hybrid.library.merges);
    BOOST_TEST(hybrid.num_plans == 2 * 3 + 1);
    BOOST_TEST(needs_of(kernels, DType::float32, 4, {}).library.tokens == 0);
  }
  BOOST_TEST(needs_of(ops::AttentionKernels::own, DType::bf16, 4, {}).library.tokens == 0);
}

BOOST_AUTO_TEST_CASE(a_library_may_get_gathered_keys) {
  const AttentionMethod gathers{AttentionMethod::Keys::all_gather, 1};
  for (const auto kernels : {ops::AttentionKernels::cudnn_forward, ops::AttentionKernels::cudnn}) {
    SequenceShape shape = shape_of(DType::bf16);
    shape.kernels = kernels;
    const ops::AttentionNeeds needs = make_sequence_buffers(shape, 2, gathers)->attention_needs();
    BOOST_TEST(needs.library.tokens == num_tokens);
    BOOST_TEST(needs.library.key_tokens == 2 * num_tokens);
    BOOST_TEST(needs.library.kv_heads == std::max<std::int64_t>(1, num_kv_heads / 2));
    BOOST_TEST(needs.library.q_heads == num_q_heads / num_kv_heads * needs.library.kv_heads);
    BOOST_TEST(needs.library.head_dim == head_dim);
    BOOST_TEST(needs.library.has_backward == (kernels == ops::AttentionKernels::cudnn));
    BOOST_TEST(!needs.library.merges);
    shape.compute = DType::float32;
    BOOST_TEST(make_sequence_buffers(shape, 2, gathers)->attention_needs().library.tokens == 0);
  }
}

// Its backward pass reads the output, which comes with the gradient of the output; delta is formed from both where they
// arrive.
BOOST_AUTO_TEST_CASE(a_library_may_get_exchanged_heads) {
  const auto buffers_of = [](ops::AttentionKernels kernels, DType compute, int sp_size, int ulysses_size) {
    SequenceShape shape = shape_of(compute);
    shape.kernels = kernels;
    return make_sequence_buffers(shape, sp_size, {AttentionMethod::Keys::ring, ulysses_size});
  };
  const auto bytes_of = [&](ops::AttentionKernels kernels, DType compute, int sp_size, int ulysses_size) {
    device::Arena sizing;
    buffers_of(kernels, compute, sp_size, ulysses_size)->lay_out(sizing);
    return sizing.used_bytes();
  };
  using ops::AttentionKernels;
  // What the output takes more than delta does, where so many ranks exchange heads.
  const auto added_bytes = [](int size) {
    const std::int64_t heads = num_q_heads / size;
    const auto bf16 = [](std::int64_t elements) { return test::bytes_of(elements, DType::bf16); };
    const auto float32 = [](std::int64_t elements) { return test::bytes_of(elements, DType::float32); };
    const std::int64_t out = num_tokens * heads * head_dim, others = size - 1, kv = 2 * num_tokens * head_dim;
    const std::size_t with_out = bf16(others * (3 * out + kv)) + bf16(size * (3 * out + kv)),
                      without = bf16(others * (2 * out + kv)) + bf16(size * (2 * out + kv)) +
                                float32(num_tokens * num_q_heads) + float32(others * num_tokens * heads);
    return with_out - without;
  };
  for (const int size : {2, 6}) {  // of 6, two and two have replicas of the same keys and values
    const std::int64_t heads = num_q_heads / size;
    const auto needs = buffers_of(AttentionKernels::cudnn, DType::bf16, size, size)->attention_needs();
    BOOST_TEST(needs.library.tokens == size * num_tokens);
    BOOST_TEST(needs.library.q_heads == heads);
    BOOST_TEST(needs.library.kv_heads == 1);
    BOOST_TEST(needs.library.has_backward);
    BOOST_TEST(needs.library.dq_row == heads * head_dim);
    const std::size_t own = bytes_of(AttentionKernels::own, DType::bf16, size, size);
    BOOST_TEST(bytes_of(AttentionKernels::cudnn, DType::bf16, size, size) == own + added_bytes(size));
    BOOST_TEST(bytes_of(AttentionKernels::cudnn_forward, DType::bf16, size, size) == own);
    BOOST_TEST(
        !buffers_of(AttentionKernels::cudnn_forward, DType::bf16, size, size)->attention_needs().library.has_backward);
  }
  // So it is with a ring between the groups; float32 has no such pass.
  BOOST_TEST(bytes_of(AttentionKernels::cudnn, DType::bf16, 6, 2) ==
             bytes_of(AttentionKernels::own, DType::bf16, 6, 2) + added_bytes(2));
  BOOST_TEST(bytes_of(AttentionKernels::cudnn, DType::float32, 2, 2) ==
             bytes_of(AttentionKernels::own, DType::float32, 2, 2));
}

BOOST_AUTO_TEST_CASE(plans_are_of_the_queries_and_keys_of_a_call) {
  const auto check = [](int sp_size, const AttentionMethod& method, std::int64_t num_plans, std::int64_t queries,
                        std::int64_t keys) {
    for (const DType compute : {DType::float32, DType::bf16}) {
      const ops::AttentionNeeds needs = make_sequence_buffers(shape_of(compute), sp_size, method)->attention_needs();
      BOOST_TEST(needs.num_plans == num_plans);
      BOOST_TEST(needs.plan_queries == queries);
      BOOST_TEST(needs.plan_keys == keys);
    }
  };
  check(1, {}, 1, num_tokens, num_tokens);
  check(4, {}, 4, num_tokens, num_tokens);
  check(2, {AttentionMethod::Keys::all_gather, 1}, 1, num_tokens, 2 * num_tokens);
  check(2, {AttentionMethod::Keys::ring, 2}, 1, 2 * num_tokens, 2 * num_tokens);
  check(6, {AttentionMethod::Keys::ring, 2}, 3, 2 * num_tokens, 2 * num_tokens);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::parallel
