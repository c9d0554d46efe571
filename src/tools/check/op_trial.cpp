// SPDX-License-Identifier: Apache-2.0
#include "op_trial.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <ctime>
#include <numeric>
#include <span>

#include "sft/core/ensure.hpp"
#include "sft/machine/node.hpp"
#include "sft/ops/factory.hpp"
#include "sft/simulator/clocked_backend.hpp"
#include "sft/simulator/clocked_device.hpp"

namespace sft::check {

namespace {

/// Sides of products, columns of what norms go over, and of the largest vocabulary: small models and large ones lie
/// between and beyond.
constexpr std::array<std::int64_t, 4> sides{16, 64, 256, 1024};
constexpr std::int64_t columns = 512, head_dim = 64, num_heads = 8, num_kv_heads = 4, table_rows = 4096;
constexpr std::array<std::int64_t, 4> document_lengths{32, 128, 512, 2048};
constexpr std::array<std::int64_t, 3> token_counts{32, 256, 2048};
constexpr std::size_t memory_bytes = std::size_t{96} << 20, cold_bytes = std::size_t{64} << 20, alignment = 256;

std::size_t aligned(std::size_t bytes) { return (bytes + alignment - 1) / alignment * alignment; }

double seconds_from(std::chrono::steady_clock::time_point start) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// That all threads of this process have had so far.
double processor_s() { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; }

}  // namespace

double Window::seconds_of(const std::function<void()>& work, const std::function<void()>& finish) const {
  work();  // what is made at the first time: machine code of products, pages
  finish();
  std::array<double, 3> means_s{};  // of each window
  for (double& mean_s : means_s) {
    std::int64_t nothing = 0;
    world.sum(std::span(&nothing, 1));
    const auto start = std::chrono::steady_clock::now();
    const double start_processor_s = processor_s();
    double elapsed_s = 0;
    std::int64_t count = 0;
    for (std::int64_t batch = 1; elapsed_s < seconds; batch = std::min<std::int64_t>(2 * batch, 64)) {
      for (std::int64_t j = 0; j < batch; ++j) work();
      finish();
      count += batch;
      elapsed_s = seconds_from(start);
    }
    const double taken_s = share < 1 ? (processor_s() - start_processor_s) / share : elapsed_s;
    std::array<double, 1> rate{static_cast<double>(count) / taken_s};
    world.sum(std::span<double>(rate));
    mean_s = world.size() / rate[0];
  }
  std::ranges::sort(means_s);
  return means_s[1];
}

ColdMemory::ColdMemory(device::Device& device, ops::Backend& ops, DType dtype, std::size_t bytes)
    : block_(device.allocate(bytes)) {
  all_ = Tensor(block_.get(), dtype, {static_cast<std::int64_t>(bytes / size_of(dtype))});
  ops.run(ops::Fill{all_, 0.5F});
}

Tensor ColdMemory::next(std::initializer_list<std::int64_t> shape) {
  const std::size_t bytes = Tensor(block_.get(), all_.dtype, shape).size_bytes();
  SFT_ENSURE(bytes <= all_.size_bytes(), "cold memory has room for a tensor");
  if (used_bytes_ + bytes > all_.size_bytes()) used_bytes_ = 0;
  const Tensor tensor(all_.as<std::byte>() + used_bytes_, all_.dtype, shape);
  used_bytes_ += aligned(bytes);
  return tensor;
}

OpTrial::OpTrial(device::Device& device, DType dtype, const Window& window)
    : device_(device),
      dtype_(dtype),
      window_(window),
      stream_(device.make_stream()),
      ops_(ops::make_backend(device, *stream_)),
      memory_(device.allocate(memory_bytes)),
      pinned_(device.allocate(std::size_t{1} << 20, device::Space::pinned)),
      weights_(device, *ops_, dtype, cold_bytes),
      sums_(device, *ops_, DType::float32, cold_bytes) {
  const std::int64_t most_tokens = document_lengths.back();
  const ops::Shapes shapes{.tokens = most_tokens,
                           .hidden = sides.back(),
                           .q_heads = num_heads,
                           .kv_heads = num_kv_heads,
                           .head_dim = head_dim,
                           .mlp = sides.back(),
                           .vocab = table_rows,
                           .compute = dtype};
  const ops::AttentionNeeds attention{.num_keys = most_tokens,
                                      .longest_lane = most_tokens,
                                      .num_kv_heads = num_kv_heads,
                                      .head_dim = head_dim,
                                      .plan_queries = most_tokens,
                                      .plan_keys = most_tokens};
  const std::size_t bytes = ops::workspace_bytes(device.kind(), machine::num_threads(), shapes, attention);
  workspace_ = device.allocate(bytes);
  ops_->set_workspace(Tensor(workspace_.get(), DType::bf16, {static_cast<std::int64_t>(bytes / size_of(DType::bf16))}));
  device.fill_zero(memory_.get(), memory_bytes, *stream_);
}

Tensor OpTrial::take(DType dtype, std::initializer_list<std::int64_t> shape) {
  const Tensor sized(memory_.get(), dtype, shape);
  SFT_ENSURE(used_bytes_ + sized.size_bytes() <= memory_bytes, "a trial has memory for its tensors");
  Tensor tensor(static_cast<std::byte*>(memory_.get()) + used_bytes_, dtype, shape);
  used_bytes_ += aligned(tensor.size_bytes());
  if (dtype == DType::float32 || dtype == DType::bf16) ops_->run(ops::Fill{tensor, 0.5F});
  return tensor;
}

Tensor OpTrial::integers(const std::vector<std::int32_t>& values) {
  const Tensor tensor = take(DType::int32, {static_cast<std::int64_t>(values.size())});
  stream_->synchronize();
  std::memcpy(pinned_.get(), values.data(), tensor.size_bytes());
  device_.copy(tensor.data, pinned_.get(), tensor.size_bytes(), *stream_);
  return tensor;
}

void OpTrial::reset() {
  stream_->synchronize();
  used_bytes_ = 0;
}

double OpTrial::seconds_of(const Work& work) const {
  return window_.seconds_of([&] { work(*ops_); }, [&] { stream_->synchronize(); });
}

double OpTrial::bytes_of(const Work& work) {
  simulator::Rates unit;
  unit.products = {{1, 1}};
  unit.memory_bytes_per_s = unit.host_bytes_per_s = 1;
  simulator::ClockedDevice device(unit);
  const auto stream = device.make_stream(device::Priority::compute);
  simulator::ClockedBackend backend(device, *stream);
  work(backend);
  return simulator::clocked(*stream).busy_s();
}

void OpTrial::add(simulator::Rates& rates, ops::Pass pass, const Work& work) {
  const double num_bytes = bytes_of(work);
  rates.passes[static_cast<std::size_t>(pass)].push_back({num_bytes, num_bytes / seconds_of(work)});
}

void OpTrial::measure(simulator::Rates& rates) {
  rates.passes = {};
  measure_products(rates);
  measure_memory(rates);
  measure_attention(rates);
  for (const std::int64_t num_tokens : token_counts) {
    measure_passes(rates, num_tokens);
    measure_loss(rates, num_tokens);
    measure_update(rates, num_tokens * columns);
  }
}

void OpTrial::measure_memory(simulator::Rates& rates) {
  constexpr std::int64_t elements = std::int64_t{1} << 20;
  const double seconds = seconds_of([&](ops::Backend& ops) {
    ops.run(ops::Copy{sums_.next({elements}), sums_.next({elements})});
  });
  rates.memory_bytes_per_s = 2 * static_cast<double>(elements * sizeof(float)) / seconds;
}

void OpTrial::measure_products(simulator::Rates& rates) {
  using Form = simulator::ProductForm;
  rates.product_grid = {};
  rates.products.clear();
  for (const std::int64_t side : sides) rates.product_grid.sides.push_back(static_cast<double>(side));
  for (const Form form : {Form::second, Form::none, Form::first}) {
    for (const std::int64_t m : sides) {
      for (const std::int64_t n : sides) {
        for (const std::int64_t k : sides) {
          reset();
          const bool is_gradient = form == Form::first;
          const bool is_second = form == Form::second;
          ops::Matmul product{.a = take(dtype_, {is_gradient ? k : m, is_gradient ? m : k}),
                              .b = take(dtype_, {is_second ? n : k, is_second ? k : n}),
                              .c = take(is_gradient ? DType::float32 : dtype_, {m, n}),
                              .transpose_a = is_gradient,
                              .transpose_b = is_second,
                              .accumulate = is_gradient};
          const double flops = 2.0 * static_cast<double>(m * n * k);
          const double rate = flops / seconds_of([&](ops::Backend& ops) {
                                if (is_gradient) {
                                  product.c = sums_.next({m, n});
                                } else {
                                  product.b = weights_.next({is_second ? n : k, is_second ? k : n});
                                }
                                ops.run(product);
                              });
          rates.product_grid.flops_per_s[static_cast<std::size_t>(form)].push_back(rate);
          if (form == Form::second && m == n && n == k) rates.products.push_back({static_cast<double>(m), rate});
        }
      }
    }
  }
}

void OpTrial::measure_attention(simulator::Rates& rates) {
  rates.attention.forward.clear();
  rates.attention.backward.clear();
  const float scale = 1 / std::sqrt(static_cast<float>(head_dim));
  for (const std::int64_t length : document_lengths) {
    reset();
    const auto heads = [&](std::int64_t count) { return take(dtype_, {length, count, head_dim}); };
    const Tensor q = heads(num_heads), k = heads(num_kv_heads), v = heads(num_kv_heads), out = heads(num_heads);
    const Tensor dout = heads(num_heads), dq = heads(num_heads), dk = heads(num_kv_heads), dv = heads(num_kv_heads);
    const Tensor lse = take(DType::float32, {length, num_heads}), delta = take(DType::float32, {length, num_heads});
    const sequence::AttentionSpan document{
        .q_begin = 0, .q_len = length, .k_begin = 0, .k_len = length, .diagonal = 0, .lane = 0};
    const std::unique_ptr<ops::AttentionPlan> plan = ops_->plan_attention({document}, length, length);
    const auto l = static_cast<double>(length);
    const double keys = (l + 1) / 2, pairs = l * keys * num_heads * head_dim;
    const double forward_s = seconds_of([&](ops::Backend& ops) {
      ops.run(ops::AttentionForward{.q = q, .k = k, .v = v, .out = out, .lse = lse, .scale = scale, .plan = *plan});
    });
    const double backward_s = seconds_of([&](ops::Backend& ops) {
      ops.run(ops::AttentionBackward{.q = q,
                                     .k = k,
                                     .v = v,
                                     .dout = dout,
                                     .lse = lse,
                                     .delta = delta,
                                     .dq = dq,
                                     .dk = dk,
                                     .dv = dv,
                                     .scale = scale,
                                     .plan = *plan});
    });
    rates.attention.forward.push_back({keys, 4 * pairs / forward_s});
    rates.attention.backward.push_back({keys, 10 * pairs / backward_s});
    stream_->synchronize();
  }
  rates.attention_forward_flops_per_s = rates.attention.forward.back().flops_per_s;
  rates.attention_backward_flops_per_s = rates.attention.backward.back().flops_per_s;
}

void OpTrial::measure_passes(simulator::Rates& rates, std::int64_t num_tokens) {
  using ops::Pass;
  const std::int64_t t = num_tokens;
  reset();
  const Tensor x = take(dtype_, {t, columns}), y = take(dtype_, {t, columns}), z = take(dtype_, {t, columns});
  const Tensor wide = take(dtype_, {t, 2 * columns}), rstd = take(DType::float32, {t});
  const Tensor weight = take(dtype_, {columns}), dweight = take(DType::float32, {columns});
  const Tensor heads = take(dtype_, {t, columns / head_dim, head_dim});
  const Tensor cosine = take(DType::float32, {t, head_dim / 2}), sine = take(DType::float32, {t, head_dim / 2});
  const Tensor table = take(dtype_, {table_rows, columns}), dtable = take(DType::float32, {table_rows, columns});
  std::vector<std::int32_t> ids(static_cast<std::size_t>(t));
  for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int32_t>(i * 769 % table_rows);
  const Tensor tokens = integers(ids);
  add(rates, Pass::copy, [&](ops::Backend& ops) { ops.run(ops::Copy{y, x}); });
  add(rates, Pass::add, [&](ops::Backend& ops) { ops.run(ops::Add{y, z}); });
  constexpr float epsilon = 1e-6F;
  add(rates, Pass::norm_forward, [&](ops::Backend& ops) {
    ops.run(ops::AddRmsNormForward{
        .sum = x, .y = y, .rstd = rstd, .x = x, .delta = z, .weight = weight, .epsilon = epsilon});
  });
  add(rates, Pass::norm_backward, [&](ops::Backend& ops) {
    ops.run(ops::RmsNormBackward{
        .dx = y, .dweight = dweight, .dy = z, .x = x, .rstd = rstd, .weight = weight, .dresidual = y});
  });
  add(rates, Pass::rope, [&](ops::Backend& ops) {
    ops.run(ops::RopeForward{heads, heads, {.cosine = cosine, .sine = sine}});
  });
  add(rates, Pass::mlp_forward, [&](ops::Backend& ops) { ops.run(ops::GatedForward{y, wide}); });
  add(rates, Pass::mlp_backward, [&](ops::Backend& ops) { ops.run(ops::GatedBackward{wide, y, z, wide}); });
  add(rates, Pass::embedding_forward, [&](ops::Backend& ops) { ops.run(ops::EmbeddingForward{y, tokens, table, 0}); });
  add(rates, Pass::embedding_backward, [&](ops::Backend& ops) {
    ops.run(ops::EmbeddingBackward{dtable, tokens, y, 0});
  });
}

void OpTrial::measure_loss(simulator::Rates& rates, std::int64_t num_tokens) {
  using ops::Pass;
  const std::int64_t t = num_tokens;
  reset();
  const Tensor targets = integers(std::vector<std::int32_t>(static_cast<std::size_t>(t), 1));
  const ops::CrossEntropy chunk{.logits = take(DType::float32, {t, columns}),
                                .max = take(DType::float32, {t}),
                                .partials = take(DType::float32, {3, t}),
                                .targets = targets,
                                .loss_weights = take(DType::float32, {t}),
                                .vocab_begin = 0};
  const Tensor dlogits = take(dtype_, {t, columns}), metrics = take(DType::float64, {4});
  // The logits become exp(logit - 0.5), which stays within (0.6, 1.7) however often.
  add(rates, Pass::loss_forward, [&](ops::Backend& ops) { ops.run(ops::CrossEntropyPartials{chunk}); });
  add(rates, Pass::loss_backward, [&](ops::Backend& ops) {
    ops.run(ops::CrossEntropyFinish{chunk, dlogits, 1e-3, metrics});
  });
}

void OpTrial::measure_update(simulator::Rates& rates, std::int64_t num_elements) {
  using ops::Pass;
  reset();
  const Tensor result = take(DType::float64, {1});
  add(rates, Pass::update, [&](ops::Backend& ops) {
    const Tensor parameters = sums_.next({num_elements}), gradients = sums_.next({num_elements});
    const Tensor first = sums_.next({num_elements}), second = sums_.next({num_elements});
    const Tensor copy = dtype_ == DType::bf16 ? weights_.next({num_elements}) : Tensor();
    ops.run(ops::Update{.parameters = parameters,
                        .gradients = gradients,
                        .state = {first, second},
                        .copy = copy,
                        .rule = ops::AdamW{.learning_rate = 1e-6,
                                           .beta1 = 0.9,
                                           .beta2 = 0.999,
                                           .epsilon = 1e-8,
                                           .weight_decay = 0,
                                           .bias_correction1 = 0.5,
                                           .bias_correction2 = 0.5}});
  });
  add(rates, Pass::sum_squares, [&](ops::Backend& ops) {
    ops.run(ops::SumSquares{result, sums_.next({num_elements})});
  });
}

}  // namespace sft::check
