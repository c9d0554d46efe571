// SPDX-License-Identifier: Apache-2.0
// Attention over rows cut over the ranks = attention over whole rows on one rank, forward and backward, for several
// layers under one schedule and for one schedule after the other.

#define BOOST_TEST_MODULE mpi_sequence_attention
#define BOOST_TEST_NO_MAIN
#include "sft/parallel/sequence_attention.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "sft/device/node.hpp"
#include "sft/ops/factory.hpp"
#include "support/collectives_fixture.hpp"

namespace sft::test {

namespace {

using parallel::SequenceAttention;

constexpr std::int64_t q_heads = 4, kv_heads = 2, head_dim = 8, num_rows = 2;
constexpr std::int64_t fused_heads = q_heads + 2 * kv_heads, fused_columns = fused_heads * head_dim;

/// A tensor with its memory, every bit set (NaN) at first.
struct Owned {
  Owned(DType dtype, std::initializer_list<std::int64_t> shape) : tensor(nullptr, dtype, shape) {
    bytes.resize(tensor.size_bytes(), std::byte{0xff});
    tensor.data = bytes.data();
  }
  std::vector<std::byte> bytes;
  Tensor tensor;
};

float get(const Tensor& x, std::int64_t row, std::int64_t column) {
  const std::int64_t index = row * x.stride0 + column;
  if (x.dtype == DType::float32) return x.as<float>()[index];
  return std::bit_cast<float>(static_cast<std::uint32_t>(x.as<BFloat16>()[index].bits) << 16);
}

/// Cuts off what bf16 cannot hold, so that both dtypes see the same numbers.
void set(const Tensor& x, std::int64_t row, std::int64_t column, float value) {
  const std::uint32_t bits = std::bit_cast<std::uint32_t>(value) & 0xffff0000U;
  const std::int64_t index = row * x.stride0 + column;
  if (x.dtype == DType::float32) {
    x.as<float>()[index] = std::bit_cast<float>(bits);
  } else {
    x.as<BFloat16>()[index] = {static_cast<std::uint16_t>(bits >> 16)};
  }
}

SequenceAttention::Heads split(const Tensor& fused) {
  const auto heads = [&](std::int64_t first, std::int64_t count) {
    return fused.columns(first * head_dim, count * head_dim).view({fused.shape[0], count, head_dim});
  };
  return {heads(0, q_heads), heads(q_heads, kv_heads), heads(q_heads + kv_heads, kv_heads)};
}

/// One way of attending with the memory of one layer. Its tokens are those of sp rank `sp_rank` of `cut`.
class Layer {
 public:
  Layer(const CollectivesFixture& fixture, const comm::Group& sp, const sequence::RowCut& cut, DType dtype)
      : cut_(cut),
        sp_rank_(sp.rank()),
        num_tokens_(num_rows * cut.local_length()),
        qkv_(dtype, {num_tokens_, fused_columns}),
        dqkv_(dtype, {num_tokens_, fused_columns}),
        out_(dtype, {num_tokens_, q_heads, head_dim}),
        dout_(dtype, {num_tokens_, q_heads, head_dim}),
        lse_(DType::float32, {num_tokens_, q_heads}),
        compute_stream_(fixture.device->make_stream()),
        ring_stream_(fixture.device->make_stream()),
        backend_(ops::make_backend(*fixture.device, *compute_stream_)),
        buffers_(parallel::make_sequence_buffers({.tokens = num_tokens_,
                                                  .document_tokens = cut.local_length(),
                                                  .q_heads = q_heads,
                                                  .kv_heads = kv_heads,
                                                  .head_dim = head_dim,
                                                  .compute = dtype},
                                                 sp.size())),
        attention_(buffers_->make_attention(sp, *fixture.device, *backend_, *fixture.collectives, *ring_stream_)) {
    device::Arena sizing;
    buffers_->lay_out(sizing);
    arena_ = device::Arena(*fixture.device, ledger_, device::Label::workspace, sizing.used_bytes());
    buffers_->lay_out(arena_);
    workspace_.resize(
        ops::workspace_bytes(fixture.device->kind(), device::num_threads(), {}, buffers_->attention_needs()));
    backend_->set_workspace(
        {workspace_.data(), DType::float32, {std::ssize(workspace_) / static_cast<std::int64_t>(sizeof(float))}});
  }

  /// From now on rows of another length, up to that of the first cut.
  void set_cut(const sequence::RowCut& cut) {
    cut_ = cut;
    num_tokens_ = num_rows * cut.local_length();
  }
  void set_documents(const sequence::RowDocuments& documents) {
    attention_->set_schedule(sequence::schedule_ring(documents, cut_, sp_rank_));
  }

  /// Forward and backward on numbers that depend on `seed` and the place in the whole rows alone.
  void run(int seed) {
    for (std::int64_t t = 0; t < num_tokens_; ++t) {
      const std::int64_t token = global_token(t);
      for (std::int64_t c = 0; c < fused_columns; ++c) {
        set(qkv_.tensor, t, c, 3.0F * noise(seed, token * fused_columns + c));
      }
      for (std::int64_t c = 0; c < q_heads * head_dim; ++c) {
        set(dout_.tensor, t, c, noise(seed + 1000, token * fused_columns + c));
      }
    }
    std::ranges::fill(dqkv_.bytes, std::byte{0xff});
    std::ranges::fill(out_.bytes, std::byte{0xff});
    const SequenceAttention::Heads heads = split(used(qkv_));
    attention_->forward(heads, used(out_), used(lse_));
    attention_->backward(heads, used(out_), used(lse_), used(dout_), split(used(dqkv_)));
    compute_stream_->synchronize();
  }

  [[nodiscard]] std::int64_t num_tokens() const { return num_tokens_; }
  /// Index among all tokens of the whole rows, of the rank's token t.
  [[nodiscard]] std::int64_t global_token(std::int64_t t) const {
    const std::int64_t row = t / cut_.local_length(), at = t % cut_.local_length();
    for (const sequence::Chunk& chunk : cut_.chunks(sp_rank_)) {
      if (at < chunk.local + chunk.length) return row * cut_.length() + chunk.global + at - chunk.local;
    }
    return -1;
  }
  /// Output, log-sum-exp and gradients.
  [[nodiscard]] std::vector<Tensor> results() const {
    return {used(out_).view({num_tokens_, q_heads * head_dim}), used(lse_), used(dqkv_)};
  }

 private:
  [[nodiscard]] Tensor used(const Owned& rows) const { return rows.tensor.rows(0, num_tokens_); }

  sequence::RowCut cut_;
  int sp_rank_;
  std::int64_t num_tokens_;
  Owned qkv_, dqkv_, out_, dout_, lse_;
  device::Ledger ledger_;
  device::Arena arena_;
  std::vector<std::byte> workspace_;
  std::unique_ptr<device::Stream> compute_stream_, ring_stream_;
  std::unique_ptr<ops::Backend> backend_;
  std::unique_ptr<parallel::SequenceBuffers> buffers_;
  std::unique_ptr<SequenceAttention> attention_;
};

/// The largest difference from whole rows, relative to the largest number of the same result.
double worst_difference(const Layer& part, const Layer& whole) {
  double worst = 0.0;
  const std::vector<Tensor> parts = part.results(), wholes = whole.results();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    double largest = 1e-30, difference = 0.0;
    for (std::int64_t t = 0; t < part.num_tokens(); ++t) {
      for (std::int64_t c = 0; c < parts[i].row_elements(); ++c) {
        const float a = get(parts[i], t, c), b = get(wholes[i], part.global_token(t), c);
        if (std::isfinite(b)) largest = std::max(largest, static_cast<double>(std::abs(b)));
        if (a == b) continue;  // infinities too
        const double apart = std::abs(static_cast<double>(a) - static_cast<double>(b));
        difference = std::isfinite(apart) ? std::max(difference, apart) : std::numeric_limits<double>::infinity();
      }
    }
    worst = std::max(worst, difference / largest);
  }
  return worst;
}

}  // namespace

BOOST_FIXTURE_TEST_CASE(cut_rows_attend_as_whole_ones, CollectivesFixture) {
  const comm::Group self = world.split(rank, 0, "self");
  const std::int64_t length = sequence::padded_row_length(72, size);
  const auto whole_document = static_cast<std::int32_t>(length);
  const std::vector<sequence::RowDocuments> micro_batches = {
      {{whole_document}, {1, 33, 7, 20}},            // every rank needs keys of every other
      {{5, 5, 5}, {}},                               // ranks without a document
      {std::vector<std::int32_t>(18, 4), {36, 36}},  // hardly any exchange
      {{71}, std::vector<std::int32_t>(72, 1)}};     // documents of one token
  for (const DType dtype : {DType::float32, DType::bf16}) {
    Layer part(*this, world, {length, size}, dtype), whole(*this, self, {length, 1}, dtype);
    for (const sequence::RowDocuments& documents : micro_batches) {
      part.set_documents(documents);
      whole.set_documents(documents);
      for (const int seed : {1, 2, 3}) {
        part.run(seed);
        whole.run(seed);
        const double worst = worst_difference(part, whole);
        BOOST_TEST(worst <= (dtype == DType::float32 ? 2e-6 : 1e-2), size_of(dtype)
                                                                         << " bytes a number: differs by " << worst);
      }
    }
  }
}

BOOST_FIXTURE_TEST_CASE(micro_batches_of_any_number_of_tokens_share_the_buffers, CollectivesFixture) {
  const comm::Group self = world.split(rank, 0, "self");
  const std::int64_t longest = sequence::padded_row_length(72, size);
  for (const DType dtype : {DType::float32, DType::bf16}) {
    Layer part(*this, world, {longest, size}, dtype), whole(*this, self, {longest, 1}, dtype);
    for (const std::int64_t wanted : {30, 72, 5, 53}) {
      const std::int64_t length = sequence::padded_row_length(wanted, size);
      part.set_cut({length, size});
      whole.set_cut({length, 1});
      const auto document = static_cast<std::int32_t>(wanted);
      const sequence::RowDocuments documents = {{document}, {document - document / 2, document / 3}};
      part.set_documents(documents);
      whole.set_documents(documents);
      part.run(1);
      whole.run(1);
      const double worst = worst_difference(part, whole);
      BOOST_TEST(worst <= (dtype == DType::float32 ? 2e-6 : 1e-2),
                 wanted << " tokens, " << size_of(dtype) << " bytes a number: differs by " << worst);
    }
  }
}

BOOST_FIXTURE_TEST_CASE(tokens_outside_every_document_are_zero, CollectivesFixture) {
  const std::int64_t length = sequence::padded_row_length(72, size);
  for (const DType dtype : {DType::float32, DType::bf16}) {
    Layer part(*this, world, {length, size}, dtype);
    part.set_documents({{30, 11}, {}});
    part.run(1);
    bool is_zero = true;
    for (std::int64_t t = 0; t < part.num_tokens(); ++t) {
      if (part.global_token(t) < 30 + 11) continue;
      const std::vector<Tensor> results = part.results();
      for (const Tensor& x : {results[0], results[2]}) {
        for (std::int64_t c = 0; c < x.row_elements(); ++c) is_zero &= get(x, t, c) == 0.0F;
      }
      is_zero &= get(results[1], t, 0) == -std::numeric_limits<float>::infinity();
    }
    BOOST_TEST(is_zero);
  }
}

BOOST_FIXTURE_TEST_CASE(a_schedule_of_another_group_is_a_bug, CollectivesFixture) {
  const auto stream_of = device->make_stream();
  const auto backend = ops::make_backend(*device, *stream_of);
  const std::int64_t length = sequence::padded_row_length(72, size + 1);
  const auto buffers =
      parallel::make_sequence_buffers({length, length, q_heads, kv_heads, head_dim, DType::float32}, size);
  const auto attention = buffers->make_attention(world, *device, *backend, *collectives, *stream);
  BOOST_CHECK_THROW(attention->set_schedule(sequence::schedule_ring({{7}}, {length, size + 1}, 0)), std::logic_error);
}

}  // namespace sft::test
