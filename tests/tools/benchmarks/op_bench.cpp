// SPDX-License-Identifier: Apache-2.0
#include "tools/benchmarks/op_bench.hpp"

#include <omp.h>

#include <algorithm>
#include <chrono>
#include <cstdio>

#include "sft/core/dtype.hpp"
#include "sft/device/factory.hpp"
#include "sft/ops/factory.hpp"
#include "tools/benchmarks/gpu_peak.hpp"

namespace sft::bench {

namespace {

double now_s() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

OpBench::OpBench(const OpBenchOptions& options)
    : options_(options),
      device_(device::make_device(options.kind)),
      stream_(device_->make_stream()),
      ops_(ops::make_backend(*device_, *stream_, options.attention)) {
  const std::int64_t tokens = options.shapes.tokens;
  ops::AttentionNeeds needs{.num_keys = tokens,
                            .longest_lane = tokens,
                            .num_kv_heads = options.shapes.kv_heads,
                            .head_dim = options.shapes.head_dim};
  if (ops::is_of_library(options.attention)) {
    needs.library = {tokens, options.shapes.q_heads, options.shapes.kv_heads, options.shapes.head_dim,
                     /*has_backward=*/ops::has_backward_of_library(options.attention)};
  }
  const std::size_t workspace_bytes = ops::workspace_bytes(options.kind, omp_get_max_threads(), options.shapes, needs);
  workspace_ = device::Arena(*device_, ledger_, device::Label::workspace, workspace_bytes);
  ops_->set_workspace(
      take(workspace_, DType::float32, {static_cast<std::int64_t>(workspace_bytes / size_of(DType::float32))}));
  if (options.kind == device::Kind::cpu) {
    std::printf("%s, %s, %d threads, best of %d\n", device_->description().c_str(), ops::cpu_instruction_set(),
                omp_get_max_threads(), options.repetitions);
  } else {
    std::printf("%s, best of %d\n", device_->description().c_str(), options.repetitions);
  }
}

OpBench::~OpBench() { stream_->drain(); }

void OpBench::part(const std::function<void()>& body) {
  memory_ = device::Arena();
  body();
  const std::size_t bytes = memory_.peak_bytes();
  memory_ = device::Arena(*device_, ledger_, device::Label::activations, bytes);
  body();
  stream_->synchronize();
  memory_ = device::Arena();
}

Tensor OpBench::take_operand(DType dtype, std::initializer_list<std::int64_t> shape) {
  return take(memory_, dtype, shape);
}

void OpBench::upload(const Tensor& to, const std::function<void(void*)>& write) {
  const device::Device::Block pinned = device_->allocate(to.size_bytes(), device::Space::pinned);
  write(pinned.get());
  device_->copy(to.data, pinned.get(), to.size_bytes(), *stream_);
  stream_->synchronize();
}

Tensor OpBench::make(DType dtype, std::initializer_list<std::int64_t> shape) {
  const Tensor x = take_operand(dtype, shape);
  if (memory_.is_sizing()) return x;
  const std::int64_t size = x.num_elements();
  if (dtype == DType::int32) {
    upload(x, [&](void* host) {
      for (std::int64_t i = 0; i < size; ++i) {
        static_cast<std::int32_t*>(host)[i] = static_cast<std::int32_t>(i * 7919 % options_.shapes.vocab);
      }
    });
  } else if (dtype == DType::float64) {
    upload(x, [&](void* host) {
      for (std::int64_t i = 0; i < size; ++i) static_cast<double*>(host)[i] = 1.0 / static_cast<double>(1 + i);
    });
  } else {
    ops_->run(ops::FillNormal{x, 1, 0, 1.0F});
  }
  return x;
}

Tensor OpBench::make_filled(DType dtype, std::initializer_list<std::int64_t> shape, float value) {
  const Tensor x = take_operand(dtype, shape);
  if (!memory_.is_sizing()) ops_->run(ops::Fill{x, value});
  return x;
}

std::unique_ptr<ops::AttentionPlan> OpBench::plan(const std::vector<sequence::AttentionSpan>& spans,
                                                  std::int64_t num_tokens) {
  if (memory_.is_sizing()) return std::make_unique<ops::AttentionPlan>(num_tokens, num_tokens);
  return ops_->plan_attention(spans, num_tokens, num_tokens);
}

double OpBench::best_s(const std::function<void()>& op) {
  const auto time_of = [&](int calls) {
    const double begin_s = now_s();
    for (int i = 0; i < calls; ++i) op();
    stream_->synchronize();
    return (now_s() - begin_s) / calls;
  };
  stream_->synchronize();
  time_of(1);
  // A GPU runs calls one behind the other without waiting for the host, so several of them hide what the host takes.
  int calls = 1;
  if (options_.kind == device::Kind::cuda) calls = std::clamp(static_cast<int>(0.01 / time_of(1)), 1, 200);
  double best = time_of(calls);
  for (int i = 1; i < options_.repetitions; ++i) best = std::min(best, time_of(calls));
  return best;
}

void OpBench::report(const std::string& name, Unit unit, double work, double roof, std::int64_t calls,
                     const std::function<void()>& op) {
  if (memory_.is_sizing()) return;
  const double seconds = best_s(op);
  total_s_ += seconds * static_cast<double>(calls);
  const double rate = work / seconds;
  std::printf("%-32s %9.3f ms %9.1f %s ", name.c_str(), seconds * 1e3, rate / unit.size, unit.name);
  if (roof > 0.0) {
    std::printf("%6.2f of the roof ", rate / roof);
  } else {
    std::printf("%18s", "");
  }
  std::printf("%9.1f ms a micro-batch\n", seconds * static_cast<double>(calls) * 1e3);
  std::fflush(stdout);
}

void OpBench::memory_bound(const std::string& name, std::int64_t bytes, std::int64_t calls,
                           const std::function<void()>& op) {
  report(name, {"GB/s", 1e9}, static_cast<double>(bytes), bytes_per_s_, calls, op);
}

void OpBench::without_roof(const std::string& name, std::int64_t bytes, std::int64_t calls,
                           const std::function<void()>& op) {
  report(name, {"GB/s", 1e9}, static_cast<double>(bytes), 0.0, calls, op);
}

void OpBench::product_bound(const std::string& name, double flops, std::int64_t calls,
                            const std::function<void()>& op) {
  report(name, options_.kind == device::Kind::cuda ? Unit{"TF/s", 1e12} : Unit{"GF/s", 1e9}, flops, flops_per_s_, calls,
         op);
}

void OpBench::measure_roofs(DType dtype) {
  part([&] {
    const std::int64_t copied = options_.copy_mib * ((std::int64_t{1} << 20) / 4), size = options_.product_size;
    const Tensor a = make(DType::float32, {copied}), b = make(DType::float32, {copied});
    const Tensor x = make(dtype, {size, size}), y = make(dtype, {size, size}), z = make(dtype, {size, size});
    if (memory_.is_sizing()) return;
    bytes_per_s_ = 2.0 * static_cast<double>(a.size_bytes()) / best_s([&] { ops_->run(ops::Copy{b, a}); });
    const double flops = 2.0 * static_cast<double>(size * size * size);
    flops_per_s_ = flops / best_s([&] { ops_->run(ops::Matmul{.a = x, .b = y, .c = z}); });
  });
  std::printf("\n%s: streaming copy %.1f GB/s, product at %lld^3 %.1f GF/s\n", name_of(dtype), bytes_per_s_ * 1e-9,
              static_cast<long long>(options_.product_size), flops_per_s_ * 1e-9);
  if (options_.kind != device::Kind::cuda || dtype != DType::bf16) return;
  const bool is_given = options_.peak_tflops > 0;
  const double peak = is_given ? options_.peak_tflops : peak_bf16_tflops(device_->description());
  if (peak == 0) return;
  flops_per_s_ = 1e12 * peak;
  std::printf("the roof of products is %.1f TF/s, %s\n", peak, is_given ? "as given" : "of the GPU's data sheet");
}

double OpBench::take_total_s() {
  const double total_s = total_s_;
  total_s_ = 0.0;
  return total_s;
}

}  // namespace sft::bench
