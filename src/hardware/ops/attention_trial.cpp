// SPDX-License-Identifier: Apache-2.0
#include "sft/ops/attention_trial.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <exception>
#include <vector>

#include "sft/core/error.hpp"
#include "sft/device/arena.hpp"
#include "sft/ops/factory.hpp"
#include "sft/sequence/attention_schedule.hpp"

namespace sft::ops {

namespace {

/// Of a row of a head, the length of the difference over the larger of its own length and of the mean row's. Where
/// probabilities and their gradients are rounded to bf16 between products this is 0.2 to 0.5 %; a key too many or a row
/// of another document makes it a multiple of that in some row.
constexpr double row_tolerance = 0.04;
constexpr double lse_tolerance = 1e-3;  ///< of sums in float32, absolute: a key more of a thousand shows

/// What queries see.
struct Seen {
  std::vector<sequence::AttentionSpan> spans;
  std::int64_t num_keys;
};

/// Three documents and a tail that belongs to none; few tokens are one document.
Seen own_keys(const AttentionSizes& sizes) {
  const std::int64_t tokens = sizes.tokens, window = sizes.window;
  std::vector<sequence::AttentionSpan> spans;
  std::int64_t begin = 0;
  for (const std::int64_t part : {tokens * 5 / 8, tokens / 4 - 3, tokens / 16 + 1}) {
    const std::int64_t length = std::min(std::max<std::int64_t>(part, 1), tokens - begin);
    if (length <= 0) break;
    spans.push_back({begin, length, begin, length, 0, static_cast<std::int64_t>(spans.size()), window});
    begin += length;
  }
  const sequence::AttentionSpan first = spans.front();
  if (sizes.keys != TrialKeys::rounds || first.q_len < 2) return {spans, tokens};
  const std::int64_t early = first.q_len / 2, late = first.q_len - early;
  spans.front() = {early, late, 0, early, early, 0, window};
  spans.insert(spans.begin(), {{0, early, 0, early, 0, 0, window}, {early, late, early, late, 0, 0, window}});
  if (!spans[2].sees_any()) spans.erase(spans.begin() + 2);
  return {spans, tokens};
}

/// Of a rank that holds the second and the third quarter of a row: a document that begins before it, one that goes from
/// one of its chunks to the other, one that is whole, and a tail of none.
Seen gathered_keys(const AttentionSizes& sizes) {
  const sequence::RowCut cut(2 * sizes.tokens, 2);
  const auto part = [&](std::int64_t sixteenths) {
    return static_cast<std::int32_t>(std::max<std::int64_t>(cut.length() * sixteenths / 16, 1));
  };
  const sequence::RowDocuments documents = {{part(5), part(4), part(2)}};
  const auto schedule = sequence::schedule_all_gather(documents, cut, SpRank::from(1), sizes.window);
  return {schedule.rounds.front().spans, schedule.num_keys};
}

Seen seen_by(const AttentionSizes& sizes) {
  return sizes.keys == TrialKeys::gathered ? gathered_keys(sizes) : own_keys(sizes);
}

/// Device memory as long as this is there.
class Blocks {
 public:
  explicit Blocks(device::Device& device) : device_(device) {}
  void* take(std::size_t bytes) {
    blocks_.push_back(device_.allocate(bytes));
    return blocks_.back().get();
  }

 private:
  device::Device& device_;
  std::vector<device::Device::Block> blocks_;
};

/// The tensors of one layer's attention.
class Layer {
 public:
  /// In memory that memory.take(bytes) gives it.
  template <class Memory>
  Layer(Memory& memory, const AttentionSizes& sizes) : sizes_(sizes) {
    const auto add = [&](DType dtype, std::int64_t rows, std::int64_t columns) {
      const std::size_t bytes = static_cast<std::size_t>(rows * columns) * size_of(dtype);
      return Tensor(memory.take(bytes), dtype, {rows, columns});
    };
    const std::int64_t tokens = sizes.tokens, own = sizes.q_heads * sizes.head_dim;
    const std::int64_t of_keys = 2 * sizes.kv_heads * sizes.head_dim;
    for (Tensor* x : {&qkv, &dqkv}) *x = add(DType::bf16, tokens, own + of_keys);
    for (Tensor* x : {&out, &dout}) *x = add(DType::bf16, tokens, own);
    for (Tensor* x : {&lse, &delta}) *x = add(DType::float32, tokens, sizes.q_heads);
    if (sizes.keys == TrialKeys::rounds) {
      sums = add(DType::float32, tokens, own);
      gradient_sums = add(DType::float32, tokens, own + of_keys);
    }
    if (sizes.has_sinks && sizes.keys != TrialKeys::rounds) sinks = add(DType::float32, 1, sizes.q_heads);
    kv = qkv.columns(own, of_keys);
    dkv = dqkv.columns(own, of_keys);
    if (sizes.keys != TrialKeys::gathered) return;
    kv = add(DType::bf16, 2 * tokens, of_keys);
    dkv = add(DType::float32, 2 * tokens, of_keys);
  }

  /// Both passes, queued.
  void run(Backend& backend, const AttentionPlan& plan) {
    const std::int64_t h = sizes_.q_heads, k = sizes_.kv_heads;
    const bool is_round = sizes_.keys == TrialKeys::rounds;
    const Tensor output = heads(out, 0, h), gradient = heads(dout, 0, h);
    backend.run(AttentionForward{.q = heads(qkv, 0, h),
                                 .k = heads(kv, 0, k),
                                 .v = heads(kv, k, k),
                                 .out = is_round ? heads(sums, 0, h) : output,
                                 .lse = lse,
                                 .scale = sizes_.scale,
                                 .plan = plan,
                                 .sinks = sinks.empty() ? sinks : sinks.view({h})});
    if (is_round) backend.run(Copy{out, sums});
    backend.run(AttentionDelta{delta, output, gradient});
    AttentionBackward backward{.q = heads(qkv, 0, h),
                               .k = heads(kv, 0, k),
                               .v = heads(kv, k, k),
                               .dout = gradient,
                               .lse = lse,
                               .delta = delta,
                               .dq = heads(is_round ? gradient_sums : dqkv, 0, h),
                               .dk = is_round ? heads(gradient_sums, h, k) : heads(dkv, 0, k),
                               .dv = is_round ? heads(gradient_sums, h + k, k) : heads(dkv, k, k),
                               .scale = sizes_.scale,
                               .plan = plan};
    if (sizes_.has_backward) backward.out = output;
    backend.run(backward);
    if (is_round) backend.run(Copy{dqkv, gradient_sums});
  }

  [[nodiscard]] bool has_own_keys() const { return sizes_.keys == TrialKeys::gathered; }

  Tensor qkv, dqkv, out, dout, lse, delta;
  Tensor sinks;                ///< (1, q_heads), or empty
  Tensor kv, dkv;              ///< columns of qkv and dqkv, or tensors of their own
  Tensor sums, gradient_sums;  ///< the output, and dqkv, in float32, of a round

 private:
  [[nodiscard]] Tensor heads(const Tensor& rows, std::int64_t begin, std::int64_t count) const {
    const std::int64_t d = sizes_.head_dim;
    return rows.columns(begin * d, count * d).view({rows.shape[0], count, d});
  }

  AttentionSizes sizes_;
};

/// Elements of a tensor on the host, once all that is queued on `stream` is done.
std::vector<float> read(const Tensor& x, device::Device& device, device::Stream& stream) {
  const device::Device::Block block = device.allocate(x.size_bytes(), device::Space::pinned);
  device.copy(block.get(), x.data, x.size_bytes(), stream);
  stream.synchronize();
  std::vector<float> values(static_cast<std::size_t>(x.num_elements()));
  if (x.dtype == DType::float32) {
    std::memcpy(values.data(), block.get(), x.size_bytes());
    return values;
  }
  const auto* const bits = static_cast<const std::uint16_t*>(block.get());
  std::transform(bits, bits + values.size(), values.begin(),
                 [](std::uint16_t x_bits) { return float32_of_bf16(x_bits); });
  return values;
}

/// A backend with its workspace.
class Side {
 public:
  Side(device::Device& device, const AttentionSizes& sizes, AttentionKernels kernels) : stream_(device.make_stream()) {
    const Shapes shapes{.tokens = sizes.tokens,
                        .hidden = sizes.q_heads * sizes.head_dim,
                        .q_heads = sizes.q_heads,
                        .kv_heads = sizes.kv_heads,
                        .head_dim = sizes.head_dim,
                        .mlp = 1,
                        .vocab = 1,
                        .compute = DType::bf16};
    const Seen seen = seen_by(sizes);
    const bool is_round = sizes.keys == TrialKeys::rounds;
    AttentionNeeds needs{.num_keys = sizes.tokens,
                         .longest_lane = sizes.tokens,
                         .num_kv_heads = sizes.kv_heads,
                         .head_dim = sizes.head_dim,
                         .num_plans = is_round ? 3 : 1,
                         .plan_queries = sizes.tokens,
                         .plan_keys = seen.num_keys};
    if (is_of_library(kernels)) {
      needs.library = {.tokens = sizes.tokens,
                       .key_tokens = sizes.keys == TrialKeys::gathered ? seen.num_keys : 0,
                       .q_heads = sizes.q_heads,
                       .kv_heads = sizes.kv_heads,
                       .head_dim = sizes.head_dim,
                       .has_backward = sizes.has_backward,
                       .merges = is_round};
    }
    const std::size_t bytes = workspace_bytes(device.kind(), 1, shapes, needs);
    workspace_ = device.allocate(bytes);
    backend_ = make_backend(device, *stream_, kernels);
    backend_->set_workspace(
        Tensor(workspace_.get(), DType::bf16, {static_cast<std::int64_t>(bytes / size_of(DType::bf16))}));
    plan_ = backend_->plan_attention(seen.spans, sizes.tokens, seen.num_keys);
  }
  ~Side() { stream_->drain(); }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  void fill(Layer& layer) {
    backend_->run(FillNormal{layer.qkv, /*seed=*/1, 0, 1.5F});
    backend_->run(FillNormal{layer.dout, /*seed=*/2, 0, 1.0F});
    if (!layer.sinks.empty()) backend_->run(FillNormal{layer.sinks, /*seed=*/4, 0, 1.0F});
    if (layer.has_own_keys()) {
      backend_->run(FillNormal{layer.kv, /*seed=*/3, 0, 1.5F});
      backend_->run(Fill{layer.dqkv, 0.0F});
    }
  }
  void run(Layer& layer) { layer.run(*backend_, *plan_); }
  [[nodiscard]] device::Stream& stream() { return *stream_; }
  [[nodiscard]] const Backend& backend() const { return *backend_; }

 private:
  std::unique_ptr<device::Stream> stream_;
  device::Device::Block workspace_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<AttentionPlan> plan_;
};

double length_of(const float* x, std::int64_t count) {
  double sum = 0;
  for (std::int64_t i = 0; i < count; ++i) sum += double{x[i]} * x[i];
  return std::sqrt(sum);
}

/// Where rows of `columns` differ; empty: nowhere.
std::string compare_rows(const char* name, const std::vector<float>& actual, const std::vector<float>& expected,
                         std::int64_t columns) {
  const auto num_rows = static_cast<std::int64_t>(expected.size()) / columns;
  const double mean = length_of(expected.data(), num_rows * columns) / std::sqrt(static_cast<double>(num_rows));
  for (std::int64_t row = 0; row < num_rows; ++row) {
    std::vector<float> difference(static_cast<std::size_t>(columns));
    for (std::int64_t i = 0; i < columns; ++i) difference[i] = actual[row * columns + i] - expected[row * columns + i];
    const double allowed = row_tolerance * std::max(mean, length_of(&expected[row * columns], columns));
    const double found = length_of(difference.data(), columns);
    if (found <= allowed) continue;  // not so for NaN
    return fmt::format("{} differs by {:.3g} in row {}, where rounding explains {:.3g}", name, found, row, allowed);
  }
  return {};
}

std::string compare_lse(const std::vector<float>& actual, const std::vector<float>& expected) {
  for (std::size_t i = 0; i < expected.size(); ++i) {
    if (actual[i] == expected[i] || std::abs(actual[i] - expected[i]) <= lse_tolerance) continue;
    return fmt::format("the log-sum-exp is {} in place {}, and not {}", actual[i], i, expected[i]);
  }
  return {};
}

}  // namespace

AttentionTrial try_attention(device::Device& device, const AttentionSizes& sizes, AttentionKernels kernels) {
  Blocks memory(device);
  Layer expected(memory, sizes), actual(memory, sizes);
  {
    Side own(device, sizes, AttentionKernels::own);
    own.fill(expected);
    own.fill(actual);
    own.run(expected);
    own.stream().synchronize();
  }
  AttentionTrial trial;
  try {
    Side other(device, sizes, kernels);
    other.run(actual);
    const auto of = [&](const Tensor& x) { return read(x, device, other.stream()); };
    std::vector<std::string> differences = {
        compare_rows("the output", of(actual.out), of(expected.out), sizes.head_dim),
        compare_lse(of(actual.lse), of(expected.lse)),
        compare_rows("a gradient", of(actual.dqkv), of(expected.dqkv), sizes.head_dim)};
    if (actual.has_own_keys()) {
      differences.push_back(compare_rows("a gradient of keys", of(actual.dkv), of(expected.dkv), sizes.head_dim));
    }
    for (const std::string& difference : differences) {
      if (trial.difference.empty()) trial.difference = difference;
    }
    const LibraryCalls calls = other.backend().library_calls();
    trial.has_forward = calls.forward > 0;
    trial.has_backward = calls.backward > 0;
  } catch (const Error&) {  // of memory, or a GPU that fails
    throw;
  } catch (const std::exception& error) {
    trial.difference = error.what();
  }
  return trial;
}

void note_attention_trial(Backend& list, const AttentionSizes& sizes) {
  device::Arena addresses;
  Layer layer(addresses, sizes);
  const Seen seen = seen_by(sizes);
  layer.run(list, *list.plan_attention(seen.spans, sizes.tokens, seen.num_keys));
}

}  // namespace sft::ops
