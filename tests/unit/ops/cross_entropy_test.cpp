// SPDX-License-Identifier: Apache-2.0
#include <numeric>

#include "unit/ops/naive.hpp"
#include "unit/ops/support.hpp"

namespace sft::ops::testing {
namespace {

/// The three steps over one part of the vocabulary.
struct Part {
  Owned logits, max, partials, dlogits;
  CrossEntropy chunk;

  Part(const Tensor& all_logits, const Tensor& targets, const Tensor& weights, std::int64_t begin, std::int64_t count,
       DType dtype, const TokenLoss& loss = {})
      : logits(DType::float32, {all_logits.shape[0], count}),
        max(DType::float32, {all_logits.shape[0]}),
        partials(DType::float32, {loss.num_partials(), all_logits.shape[0]}),
        dlogits(dtype, {all_logits.shape[0], count}),
        chunk{*logits, *max, *partials, targets, weights, begin, loss} {
    for (std::int64_t t = 0; t < all_logits.shape[0]; ++t) {
      for (std::int64_t c = 0; c < count; ++c) set(*logits, t, c, get(all_logits, t, begin + c));
    }
  }
};

struct Example {
  static constexpr std::int64_t rows = 37, columns = 101;
  static constexpr float gradient_scale = 0.125f;
  Owned logits = Owned(DType::float32, {rows, columns}).normal(1, 4.0);
  Owned targets = Owned(DType::int32, {rows}).uniform(2, 0, columns - 1);
  Owned weights = Owned(DType::float32, {rows}).fill(1.0);

  Example() {
    set(*weights, 3, 0, 0.0);
    set(*weights, 4, 0, 0.5);
    set(*targets, 3, 0, -100);
    set(*logits, 5, static_cast<std::int64_t>(get(*targets, 5, 0)), 30.0);  // one right answer at least
  }
  [[nodiscard]] naive::CrossEntropyResult expected(const TokenLoss& loss = {}) const {
    return naive::cross_entropy(read(*logits), read(*targets), read(*weights), gradient_scale, loss);
  }
};

const std::vector<TokenLoss> losses = {
    {}, {.dft = true}, {.label_smoothing = 0.1, .vocab = Example::columns}, {.label_smoothing = 1.0, .vocab = 101}};

void check_metrics(const Tensor& metrics, const naive::CrossEntropyResult& expected, const std::string& label) {
  check_close(metrics.rows(0, 1), {expected.loss}, 1e-6, label);
  check_close(metrics.rows(1, 1), {expected.num_targets}, 0.0, label);
  check_close(metrics.rows(2, 1), {expected.num_correct}, 0.0, label);
  check_close(metrics.rows(3, 1), {expected.entropy}, 2e-6, label);
}

}  // namespace

BOOST_AUTO_TEST_SUITE(cross_entropy)

BOOST_AUTO_TEST_CASE(logits_may_be_capped) {
  constexpr float cap = 3.0f;
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const TokenLoss& loss : losses) {
      const Example example;
      std::vector<double> raw = read(*example.logits), slopes;
      Part part(*example.logits, *example.targets, *example.weights, 0, Example::columns, dtype, loss);
      part.chunk.logit_cap = cap;
      backend->run(SoftCap{*part.logits, cap});
      for (double& logit : raw) {
        logit = cap * std::tanh(logit / cap);
        slopes.push_back(1.0 - logit * logit / (cap * cap));
      }
      check_close(*part.logits, raw, 1e-6, label);
      naive::CrossEntropyResult expected =
          naive::cross_entropy(raw, read(*example.targets), read(*example.weights), Example::gradient_scale, loss);
      for (std::size_t i = 0; i < slopes.size(); ++i) expected.dlogits[i] *= slopes[i];
      const Owned metrics = Owned(DType::float64, {4}).fill(0.0);
      backend->run(CrossEntropyMax{part.chunk});
      backend->run(CrossEntropyPartials{part.chunk});
      backend->run(CrossEntropyFinish{part.chunk, *part.dlogits, Example::gradient_scale, *metrics});
      check_close(metrics->rows(0, 1), {expected.loss}, 1e-6, label);
      check_close(*part.dlogits, expected.dlogits, 2 * tolerance_of(dtype), label);
    }
  });
}

BOOST_AUTO_TEST_CASE(loss_metrics_and_gradient) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const TokenLoss& loss : losses) {
      const Example example;
      const naive::CrossEntropyResult expected = example.expected(loss);
      Part part(*example.logits, *example.targets, *example.weights, 0, Example::columns, dtype, loss);
      const Owned metrics = Owned(DType::float64, {4}).fill(0.0);
      backend->run(CrossEntropyMax{part.chunk});
      backend->run(CrossEntropyPartials{part.chunk});
      backend->run(CrossEntropyFinish{part.chunk, *part.dlogits, Example::gradient_scale, *metrics});
      check_metrics(*metrics, expected, label);
      check_close(*part.dlogits, expected.dlogits, tolerance_of(dtype), label);
      if (dtype == DType::float32) {  // in place, on top of former metrics
        backend->run(CrossEntropyFinish{part.chunk, *part.logits, Example::gradient_scale, *metrics});
        BOOST_TEST((read(*part.logits) == read(*part.dlogits)), label);
        BOOST_TEST(get(*metrics, 1, 0) == 2 * expected.num_targets);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(a_vocabulary_in_two_parts_equals_the_whole) {
  on_every_backend_and_dtype([](TestBackend& backend, DType dtype, const std::string& label) {
    for (const TokenLoss& loss : losses) {
      const Example example;
      const naive::CrossEntropyResult expected = example.expected(loss);
      constexpr std::int64_t split = 40;
      Part left(*example.logits, *example.targets, *example.weights, 0, split, dtype, loss);
      Part right(*example.logits, *example.targets, *example.weights, split, Example::columns - split, dtype, loss);
      backend->run(CrossEntropyMax{left.chunk});
      backend->run(CrossEntropyMax{right.chunk});
      for (std::int64_t t = 0; t < Example::rows; ++t) {
        const double max = std::max(get(*left.max, t, 0), get(*right.max, t, 0));
        set(*left.max, t, 0, max);
        set(*right.max, t, 0, max);
      }
      backend->run(CrossEntropyPartials{left.chunk});
      backend->run(CrossEntropyPartials{right.chunk});
      backend->run(Add{*left.partials, *right.partials});
      backend->run(Copy{*right.partials, *left.partials});
      for (Part* part : {&left, &right}) {
        const Owned metrics = Owned(DType::float64, {4}).fill(0.0);
        backend->run(CrossEntropyFinish{part->chunk, *part->dlogits, Example::gradient_scale, *metrics});
        check_metrics(*metrics, expected, label);
        const std::int64_t columns = part->logits->shape[1];
        std::vector<double> gradient;
        for (std::int64_t t = 0; t < Example::rows; ++t) {
          const auto row = expected.dlogits.begin() + t * Example::columns + part->chunk.vocab_begin;
          gradient.insert(gradient.end(), row, row + columns);
        }
        check_close(*part->dlogits, gradient, tolerance_of(dtype), label);
      }
    }
  });
}

BOOST_AUTO_TEST_CASE(metrics_without_a_gradient) {
  on_every_backend([](TestBackend& backend) {
    const Example example;
    Part part(*example.logits, *example.targets, *example.weights, 0, Example::columns, DType::float32);
    const Owned metrics = Owned(DType::float64, {4}).fill(0.0);
    backend->run(CrossEntropyMax{part.chunk});
    backend->run(CrossEntropyPartials{part.chunk});
    backend->run(CrossEntropyFinish{part.chunk, {}, Example::gradient_scale, *metrics});
    check_metrics(*metrics, example.expected(), backend.name());
  });
}

BOOST_AUTO_TEST_CASE(tiny_weights_give_the_gradient_of_their_ratios) {
  // The smallest float32 numbers have inverses that float32 cannot hold.
  on_every_backend([](TestBackend& backend) {
    constexpr float tiny_weight = 1e-42F;
    const Example example;
    const Owned ones = Owned(DType::float32, {Example::rows}).fill(1.0);
    const Owned weights = Owned(DType::float32, {Example::rows}).fill(tiny_weight);
    Part part(*example.logits, *example.targets, *weights, 0, Example::columns, DType::float32);
    const Owned metrics = Owned(DType::float64, {4}).fill(0.0);
    backend->run(CrossEntropyMax{part.chunk});
    backend->run(CrossEntropyPartials{part.chunk});
    backend->run(CrossEntropyFinish{part.chunk, *part.dlogits, 1.0 / (static_cast<double>(tiny_weight) * Example::rows),
                                    *metrics});
    const naive::CrossEntropyResult expected =
        naive::cross_entropy(read(*example.logits), read(*example.targets), read(*ones), 1.0 / Example::rows);
    check_close(*part.dlogits, expected.dlogits, tolerance_of(DType::float32), backend.name());
  });
}

BOOST_AUTO_TEST_CASE(nan_reaches_the_loss_unless_its_token_does_not_count) {
  on_every_backend([](TestBackend& backend) {
    for (const std::int64_t bad_row : {std::int64_t{3}, std::int64_t{7}}) {  // row 3 has weight 0
      const Example example;
      set(*example.logits, bad_row, 50, std::numeric_limits<double>::quiet_NaN());
      Part part(*example.logits, *example.targets, *example.weights, 0, Example::columns, DType::float32);
      const Owned metrics = Owned(DType::float64, {4}).fill(0.0);
      backend->run(CrossEntropyMax{part.chunk});
      backend->run(CrossEntropyPartials{part.chunk});
      backend->run(CrossEntropyFinish{part.chunk, *part.dlogits, Example::gradient_scale, *metrics});
      BOOST_TEST(std::isnan(get(*metrics, 0, 0)) == (bad_row == 7), backend.name());
      BOOST_TEST(get(*part.dlogits, 3, 50) == 0.0);
    }
  });
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
