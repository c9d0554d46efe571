// SPDX-License-Identifier: Apache-2.0
// Attention over a row cut over the ranks = attention over the whole row on one rank, by every method, forward and
// backward, for several layers under one schedule and for one schedule after the other.

#include "sft/parallel/sequence_attention.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "sft/machine/node.hpp"
#include "sft/ops/factory.hpp"
#include "support/collectives_fixture.hpp"

namespace sft::test {

namespace {

using parallel::SequenceAttention;
using sequence::AttentionMethod;

constexpr std::int64_t head_dim = 8;

struct HeadCounts {
  std::int64_t q, kv;

  [[nodiscard]] std::int64_t fused_columns() const { return (q + 2 * kv) * head_dim; }
};
/// Few and many queries a key/value head, one of all of them, and numbers that most methods cannot split evenly.
const std::vector<HeadCounts> head_counts = {{8, 2}, {12, 4}, {10, 5}, {6, 1}};

/// Every method for `sp_size` ranks with these heads.
std::vector<AttentionMethod> methods_for(int sp_size, const HeadCounts& heads) {
  std::vector<AttentionMethod> methods = {{AttentionMethod::Keys::all_gather, 1}};
  for (int ulysses_size = 1; ulysses_size <= sp_size; ++ulysses_size) {
    if (sp_size % ulysses_size != 0 || heads.q % ulysses_size != 0) continue;
    methods.push_back({AttentionMethod::Keys::ring, ulysses_size});
  }
  return methods;
}

std::string describe(const AttentionMethod& method, const HeadCounts& heads, DType dtype) {
  return std::string(method.keys == AttentionMethod::Keys::ring ? "ring" : "all_gather") + ", ulysses_size " +
         std::to_string(method.ulysses_size) + ", heads " + std::to_string(heads.q) + "/" + std::to_string(heads.kv) +
         ", " + std::to_string(size_of(dtype)) + " bytes a number";
}

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

SequenceAttention::Heads split(const Tensor& fused, const HeadCounts& counts) {
  const auto heads = [&](std::int64_t first, std::int64_t count) {
    return fused.columns(first * head_dim, count * head_dim).view({fused.shape[0], count, head_dim});
  };
  return {heads(0, counts.q), heads(counts.q, counts.kv), heads(counts.q + counts.kv, counts.kv)};
}

/// What is done to scores.
struct Scores {
  float softcap = 0.0F;
  bool has_sinks = false;
};

/// One way of attending with the memory of one layer. Its tokens are those of this rank of `cut`; `windows` are those
/// of the kinds of attention that share it.
class Layer {
 public:
  Layer(const CollectivesFixture& fixture, const comm::Group& sp, const sequence::RowCut& cut, const HeadCounts& heads,
        const AttentionMethod& method, DType dtype, const sequence::AttentionWindows& windows = {0},
        const Scores& scores = {}, ops::AttentionKernels kernels = ops::AttentionKernels::own)
      : heads_(heads),
        method_(method),
        windows_(windows),
        cut_(cut),
        sp_rank_(sp.rank()),
        num_tokens_(cut.local_length()),
        qkv_(dtype, {num_tokens_, heads.fused_columns()}),
        dqkv_(dtype, {num_tokens_, heads.fused_columns()}),
        out_(dtype, {num_tokens_, heads.q, head_dim}),
        dout_(dtype, {num_tokens_, heads.q, head_dim}),
        lse_(DType::float32, {num_tokens_, heads.q}),
        sinks_(DType::float32, {scores.has_sinks ? heads.q : 0}),
        dsinks_(DType::float32, {scores.has_sinks ? heads.q : 0}),
        compute_stream_(fixture.device->make_stream()),
        ring_stream_(fixture.device->make_stream()),
        backend_(ops::make_checked_backend(ops::make_backend(*fixture.device, *compute_stream_))),
        buffers_(parallel::make_sequence_buffers({.tokens = num_tokens_,
                                                  .document_tokens = cut.length(),
                                                  .q_heads = heads.q,
                                                  .kv_heads = heads.kv,
                                                  .head_dim = head_dim,
                                                  .compute = dtype,
                                                  .softcap = scores.softcap,
                                                  .num_kinds = windows.size(),
                                                  .kernels = kernels},
                                                 sp.size(), method)) {
    device::Arena sizing;
    buffers_->lay_out(sizing);
    arena_ = device::Arena(*fixture.device, ledger_, device::Label::workspace, sizing.used_bytes());
    buffers_->lay_out(arena_);
    attention_ = buffers_->make_attention(sp, *fixture.device, *backend_, *fixture.collectives, *ring_stream_);
    workspace_.resize(
        ops::workspace_bytes(fixture.device->kind(), machine::num_threads(), {}, buffers_->attention_needs()));
    backend_->set_workspace(
        {workspace_.data(), DType::float32, {std::ssize(workspace_) / static_cast<std::int64_t>(sizeof(float))}});
  }

  /// From now on a row of another length, up to that of the first cut.
  void set_cut(const sequence::RowCut& cut) {
    cut_ = cut;
    num_tokens_ = cut.local_length();
  }
  void set_documents(const std::vector<std::int32_t>& lengths) {
    attention_->set_schedules(sequence::make_schedules(method_, windows_, {lengths}, cut_, SpRank::from(sp_rank_)));
  }

  /// Forward and backward on numbers that depend on `seed` and the place in the whole row alone.
  void run(int seed, sequence::AttentionKind kind = 0) {
    const std::int64_t fused_columns = heads_.fused_columns();
    for (std::int64_t t = 0; t < num_tokens_; ++t) {
      const std::int64_t token = global_token(t);
      for (std::int64_t c = 0; c < fused_columns; ++c) {
        set(qkv_.tensor, t, c, 3.0F * noise(seed, token * fused_columns + c));
      }
      for (std::int64_t c = 0; c < heads_.q * head_dim; ++c) {
        set(dout_.tensor, t, c, noise(seed + 1000, token * fused_columns + c));
      }
    }
    std::ranges::fill(dqkv_.bytes, std::byte{0xff});
    std::ranges::fill(out_.bytes, std::byte{0xff});
    SequenceAttention::Heads heads = split(used(qkv_), heads_), gradients = split(used(dqkv_), heads_);
    for (std::int64_t h = 0; h < sinks_.tensor.num_elements(); ++h) {
      set(sinks_.tensor, h, 0, 2.0F * noise(seed + 2000, h));
      dsinks_.tensor.as<float>()[h] = begun_with(seed, h);
    }
    heads.sinks = sinks_.tensor;
    gradients.sinks = dsinks_.tensor;
    attention_->forward(kind, heads, used(out_), used(lse_));
    attention_->backward(kind, heads, used(out_), used(lse_), used(dout_), gradients);
    compute_stream_->synchronize();
  }

  [[nodiscard]] std::int64_t num_tokens() const { return num_tokens_; }
  /// Index in the whole row of the rank's token t.
  [[nodiscard]] std::int64_t global_token(std::int64_t t) const {
    for (const sequence::Chunk& chunk : cut_.chunks(sp_rank_)) {
      if (t < chunk.local + chunk.length) return chunk.global + t - chunk.local;
    }
    return -1;
  }
  /// What run(seed) has added to the gradient of the sinks, on all ranks of `group` together. Collective.
  [[nodiscard]] std::vector<double> sink_gradients(int seed, const comm::Group& group) const {
    std::vector<double> sums;
    for (std::int64_t h = 0; h < dsinks_.tensor.num_elements(); ++h) {
      sums.push_back(static_cast<double>(get(dsinks_.tensor, h, 0)) - static_cast<double>(begun_with(seed, h)));
    }
    group.sum(std::span<double>(sums));
    return sums;
  }
  /// Output and gradients; where no heads are exchanged the log-sum-exp too.
  [[nodiscard]] std::vector<Tensor> results() const {
    std::vector<Tensor> all = {used(out_).view({num_tokens_, heads_.q * head_dim}), used(dqkv_)};
    if (method_.ulysses_size == 1) all.push_back(used(lse_));
    return all;
  }

 private:
  /// What the gradient of a sink holds before.
  [[nodiscard]] static float begun_with(int seed, std::int64_t head) { return noise(seed + 3000, head); }
  [[nodiscard]] Tensor used(const Owned& rows) const { return rows.tensor.rows(0, num_tokens_); }

  HeadCounts heads_;
  AttentionMethod method_;
  sequence::AttentionWindows windows_;
  sequence::RowCut cut_;
  int sp_rank_;
  std::int64_t num_tokens_;
  Owned qkv_, dqkv_, out_, dout_, lse_;
  Owned sinks_, dsinks_;  ///< (H), or none
  device::Ledger ledger_;
  device::Arena arena_;
  std::vector<std::byte> workspace_;
  std::unique_ptr<device::Stream> compute_stream_, ring_stream_;
  std::unique_ptr<ops::Backend> backend_;
  std::unique_ptr<parallel::SequenceBuffers> buffers_;
  std::unique_ptr<SequenceAttention> attention_;
};

/// The largest difference from the whole row, relative to the largest number of the same result.
/// Without by_place the two hold the same part of the row.
double worst_difference(const Layer& part, const Layer& whole, bool by_place = true) {
  double worst = 0.0;
  const std::vector<Tensor> parts = part.results(), wholes = whole.results();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    double largest = 1e-30, difference = 0.0;
    for (std::int64_t t = 0; t < part.num_tokens(); ++t) {
      for (std::int64_t c = 0; c < parts[i].row_elements(); ++c) {
        const float a = get(parts[i], t, c), b = get(wholes[i], by_place ? part.global_token(t) : t, c);
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

BOOST_AUTO_TEST_SUITE(sequence_attention)

BOOST_FIXTURE_TEST_CASE(a_cut_row_attends_as_a_whole_one, CollectivesFixture) {
  const comm::Group self = world.split(rank, 0, "self");
  const std::int64_t length = sequence::padded_row_length(144, size);
  const std::vector<std::vector<std::int32_t>> micro_batches = {
      {static_cast<std::int32_t>(length)},  // every rank needs keys of every other
      {72, 1, 33, 7, 20},
      {5, 5, 5},                           // ranks without a document
      std::vector<std::int32_t>(36, 4),    // hardly any exchange
      std::vector<std::int32_t>(143, 1)};  // documents of one token
  for (const HeadCounts& heads : head_counts) {
    for (const DType dtype : {DType::float32, DType::bf16}) {
      Layer whole(*this, self, {length, 1}, heads, {}, dtype);
      for (const AttentionMethod& method : methods_for(size, heads)) {
        Layer part(*this, world, {length, size}, heads, method, dtype);
        for (const std::vector<std::int32_t>& documents : micro_batches) {
          part.set_documents(documents);
          whole.set_documents(documents);
          for (const int seed : {1, 2}) {
            part.run(seed);
            whole.run(seed);
            const double worst = worst_difference(part, whole);
            BOOST_TEST(worst <= (dtype == DType::float32 ? 2e-6 : 1e-2), describe(method, heads, dtype)
                                                                             << ": differs by " << worst);
          }
        }
      }
    }
  }
}

BOOST_FIXTURE_TEST_CASE(kinds_of_attention_with_windows_share_the_buffers, CollectivesFixture) {
  const comm::Group self = world.split(rank, 0, "self");
  const std::int64_t length = sequence::padded_row_length(144, size);
  // One token; shorter and longer than a chunk on any number of ranks; all of the document; longer than any.
  const sequence::AttentionWindows windows = {1, 3, 29, 0, 500};
  const std::vector<std::vector<std::int32_t>> micro_batches = {
      {static_cast<std::int32_t>(length)}, {72, 1, 33, 7, 20}, std::vector<std::int32_t>(143, 1)};
  for (const HeadCounts& heads : {head_counts.front(), head_counts.back()}) {
    for (const DType dtype : {DType::float32, DType::bf16}) {
      Layer whole(*this, self, {length, 1}, heads, {}, dtype, windows);
      for (const AttentionMethod& method : methods_for(size, heads)) {
        Layer part(*this, world, {length, size}, heads, method, dtype, windows);
        for (const std::vector<std::int32_t>& documents : micro_batches) {
          part.set_documents(documents);
          whole.set_documents(documents);
          for (const sequence::AttentionKind kind : windows.reversed_indices()) {
            part.run(1, kind);
            whole.run(1, kind);
            const double worst = worst_difference(part, whole);
            BOOST_TEST(worst <= (dtype == DType::float32 ? 2e-6 : 1e-2), "window " << windows[kind] << ", "
                                                                                   << describe(method, heads, dtype)
                                                                                   << ": differs by " << worst);
          }
        }
      }
    }
  }
}

BOOST_FIXTURE_TEST_CASE(sinks_count_once_for_each_query, CollectivesFixture) {
  const comm::Group self = world.split(rank, 0, "self");
  const std::int64_t length = sequence::padded_row_length(144, size);
  const sequence::AttentionWindows windows = {0, 3, 29};
  const std::vector<std::vector<std::int32_t>> micro_batches = {
      {static_cast<std::int32_t>(length)}, {5, 5, 5}, {72, 1, 33, 7, 20}, std::vector<std::int32_t>(143, 1)};
  for (const HeadCounts& heads : {head_counts.front(), head_counts.back()}) {
    for (const Scores& scores : {Scores{0.0F, true}, Scores{2.0F, true}, Scores{2.0F, false}}) {
      for (const DType dtype : {DType::float32, DType::bf16}) {
        Layer whole(*this, self, {length, 1}, heads, {}, dtype, windows, scores);
        for (const AttentionMethod& method : methods_for(size, heads)) {
          Layer part(*this, world, {length, size}, heads, method, dtype, windows, scores);
          for (const std::vector<std::int32_t>& documents : micro_batches) {
            part.set_documents(documents);
            whole.set_documents(documents);
            for (const sequence::AttentionKind kind : windows.indices()) {
              part.run(1, kind);
              whole.run(1, kind);
              const double worst = worst_difference(part, whole);
              const double allowed = dtype == DType::float32 ? 3e-6 : 1e-2;
              BOOST_TEST(worst <= allowed, "softcap " << scores.softcap << ", window " << windows[kind] << ", "
                                                      << describe(method, heads, dtype) << ": differs by " << worst);
              const std::vector<double> ours = part.sink_gradients(1, world), all = whole.sink_gradients(1, self);
              BOOST_TEST(ours.size() == (scores.has_sinks ? heads.q : 0));
              for (std::size_t h = 0; h < ours.size(); ++h) {
                const double largest =
                    std::abs(*std::ranges::max_element(all, {}, [](double x) { return std::abs(x); }));
                BOOST_TEST(
                    std::abs(ours[h] - all[h]) <= allowed * largest,
                    "sink " << h << ", " << describe(method, heads, dtype) << ": " << ours[h] << " for " << all[h]);
              }
            }
          }
        }
      }
    }
  }
}

BOOST_FIXTURE_TEST_CASE(micro_batches_of_any_number_of_tokens_share_the_buffers, CollectivesFixture) {
  const comm::Group self = world.split(rank, 0, "self");
  const std::int64_t longest = sequence::padded_row_length(144, size);
  const HeadCounts heads = head_counts.front();
  for (const DType dtype : {DType::float32, DType::bf16}) {
    Layer whole(*this, self, {longest, 1}, heads, {}, dtype);
    for (const AttentionMethod& method : methods_for(size, heads)) {
      Layer part(*this, world, {longest, size}, heads, method, dtype);
      for (const std::int32_t wanted : {60, 144, 10, 106}) {
        const std::int64_t length = sequence::padded_row_length(wanted, size);
        part.set_cut({length, size});
        whole.set_cut({length, 1});
        const std::vector<std::int32_t> documents = {wanted / 2, wanted / 4 + 1, wanted / 6};
        part.set_documents(documents);
        whole.set_documents(documents);
        part.run(1);
        whole.run(1);
        const double worst = worst_difference(part, whole);
        BOOST_TEST(worst <= (dtype == DType::float32 ? 2e-6 : 1e-2),
                   wanted << " tokens, " << describe(method, heads, dtype) << ": differs by " << worst);
      }
    }
  }
}

BOOST_FIXTURE_TEST_CASE(the_same_numbers_give_the_same_bits, CollectivesFixture) {
  const std::int64_t length = sequence::padded_row_length(144, size);
  const HeadCounts heads{8, 2};
  for (const AttentionMethod& method : methods_for(size, heads)) {
    Layer first(*this, world, {length, size}, heads, method, DType::bf16);
    Layer second(*this, world, {length, size}, heads, method, DType::bf16);
    for (Layer* layer : {&first, &second}) layer->set_documents({72, 1, 33, 7, 20});
    second.run(5);
    for (Layer* layer : {&first, &second}) layer->run(1);
    BOOST_TEST(worst_difference(first, second, /*by_place=*/false) == 0.0, describe(method, heads, DType::bf16));
  }
}

// Where a library is to read the output it comes along, in place of its product with its gradient: CPUs, which have no
// library, form that product of what has come.
BOOST_FIXTURE_TEST_CASE(output_that_is_brought_gives_the_same_bits, CollectivesFixture) {
  const std::int64_t longest = sequence::padded_row_length(144, size);
  const sequence::AttentionWindows windows = {0, 3};
  const Scores scores{0.0F, true};
  for (const HeadCounts& heads : head_counts) {
    for (const DType dtype : {DType::float32, DType::bf16}) {
      for (const AttentionMethod& method : methods_for(size, heads)) {
        const auto layer = [&](ops::AttentionKernels kernels) {
          return Layer(*this, world, {longest, size}, heads, method, dtype, windows, scores, kernels);
        };
        Layer own = layer(ops::AttentionKernels::own), library = layer(ops::AttentionKernels::cudnn);
        for (const std::int32_t wanted : {144, 60}) {
          for (const sequence::AttentionKind kind : windows.indices()) {
            for (Layer* one : {&own, &library}) {
              one->set_cut({sequence::padded_row_length(wanted, size), size});
              one->set_documents({wanted / 2, 1, wanted / 4 + 1, wanted / 6});
              one->run(1, kind);
            }
            const std::string what = std::to_string(wanted) + " tokens, " + describe(method, heads, dtype);
            BOOST_TEST(worst_difference(library, own, /*by_place=*/false) == 0.0, what);
            BOOST_TEST(library.sink_gradients(1, world) == own.sink_gradients(1, world), what);
          }
        }
      }
    }
  }
}

BOOST_FIXTURE_TEST_CASE(tokens_outside_every_document_are_zero, CollectivesFixture) {
  const std::int64_t length = sequence::padded_row_length(144, size);
  const HeadCounts heads = head_counts.front();
  for (const DType dtype : {DType::float32, DType::bf16}) {
    for (const AttentionMethod& method : methods_for(size, heads)) {
      Layer part(*this, world, {length, size}, heads, method, dtype);
      part.set_documents({30, 41});
      part.run(1);
      const std::vector<Tensor> results = part.results();
      bool is_zero = true;
      for (std::int64_t t = 0; t < part.num_tokens(); ++t) {
        if (part.global_token(t) < 30 + 41) continue;
        for (const Tensor& x : {results[0], results[1]}) {
          for (std::int64_t c = 0; c < x.row_elements(); ++c) is_zero &= get(x, t, c) == 0.0F;
        }
        is_zero &= results.size() < 3 || get(results[2], t, 0) == -std::numeric_limits<float>::infinity();
      }
      BOOST_TEST(is_zero, describe(method, heads, dtype));
    }
  }
}

BOOST_FIXTURE_TEST_CASE(a_schedule_of_another_group_is_a_bug, CollectivesFixture) {
  const auto stream_of = device->make_stream();
  const auto backend = ops::make_checked_backend(ops::make_backend(*device, *stream_of));
  const HeadCounts heads{8, 2};
  const sequence::RowCut other(sequence::padded_row_length(144, 2 * size), 2 * size);
  for (const AttentionMethod& method : methods_for(size, heads)) {
    const auto buffers = parallel::make_sequence_buffers(
        {other.length(), other.length(), heads.q, heads.kv, head_dim, DType::float32}, size, method);
    const auto attention = buffers->make_attention(world, *device, *backend, *collectives, *stream);
    BOOST_CHECK_THROW(attention->set_schedules(sequence::make_schedules(method, {0}, {{7}}, other, 0)),
                      std::logic_error);
  }
}

BOOST_FIXTURE_TEST_CASE(heads_that_do_not_divide_are_a_bug, CollectivesFixture) {
  const parallel::SequenceShape shape{72, 72, 7, 7, head_dim, DType::float32};
  BOOST_CHECK_THROW((void)parallel::make_sequence_buffers(shape, 2, {AttentionMethod::Keys::ring, 2}),
                    std::logic_error);
  BOOST_CHECK_THROW((void)parallel::make_sequence_buffers(shape, 4, {AttentionMethod::Keys::ring, 7}),
                    std::logic_error);
}

}  // namespace sft::test

BOOST_AUTO_TEST_SUITE_END()
