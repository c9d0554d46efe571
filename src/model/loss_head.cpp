#include "sft/model/loss_head.hpp"

#include <algorithm>

namespace sft::model {

namespace {

/// Logits of one chunk: large enough for products at full speed, small beside the parameters.
constexpr std::int64_t logits_budget_bytes = std::int64_t{64} << 20;
constexpr std::int64_t min_chunk_tokens = 64;

}  // namespace

void LossHead::lay_out(device::Arena& arena) {
  const Sizes& s = c_.sizes;
  const std::int64_t fitting = logits_budget_bytes / (s.vocab * static_cast<std::int64_t>(sizeof(float)));
  chunk_tokens_ = std::min(s.tokens, std::max(min_chunk_tokens, fitting / min_chunk_tokens * min_chunk_tokens));
  logits_ = take(arena, DType::float32, {chunk_tokens_, s.vocab});
  dlogits_ = s.compute == DType::float32 ? logits_ : take(arena, s.compute, {chunk_tokens_, s.vocab});
  max_ = take(arena, DType::float32, {chunk_tokens_});
  partials_ = take(arena, DType::float32, {3 * chunk_tokens_});
}

void LossHead::forward_backward(const Tensor& normed, const Tensor& weight, const Inputs& inputs, float gradient_scale,
                                const parallel::GradientTarget& dweight, Tensor dnormed, Tensor metrics) {
  bool accumulate = dweight.accumulate;
  for (std::int64_t begin = 0; begin < c_.sizes.tokens; begin += chunk_tokens_) {
    const std::int64_t n = std::min(chunk_tokens_, c_.sizes.tokens - begin);
    const Tensor x = normed.rows(begin, n);
    const ops::CrossEntropy chunk{.logits = logits_.rows(0, n),
                                  .max = max_.rows(0, n),
                                  .partials = partials_.rows(0, 3 * n).view({3, n}),
                                  .targets = inputs.targets.rows(begin, n),
                                  .weights = inputs.weights.rows(begin, n),
                                  .vocab_begin = c_.sizes.vocab_begin};
    c_.ops.matmul({.a = x, .b = weight, .c = chunk.logits, .transpose_b = true});
    c_.units.poll();
    c_.ops.cross_entropy_max(chunk);
    c_.tp.max(chunk.max);
    c_.ops.cross_entropy_partials(chunk);
    c_.tp.sum(chunk.partials);
    const Tensor dlogits = dlogits_.rows(0, n);
    c_.ops.cross_entropy_finish(chunk, dlogits, gradient_scale, metrics);
    c_.ops.matmul({.a = dlogits, .b = weight, .c = dnormed.rows(begin, n)});
    c_.units.poll();
    c_.ops.matmul({.a = dlogits, .b = x, .c = dweight.tensor, .transpose_a = true, .accumulate = accumulate});
    c_.units.poll();
    accumulate = true;
  }
  c_.tp.sum(dnormed);
}

}  // namespace sft::model
