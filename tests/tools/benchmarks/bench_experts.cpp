// SPDX-License-Identifier: Apache-2.0
// bench_experts: time of the ops of a layer of experts. Its products stand beside one dense product of as many FLOPs,
// and beside a product for each expert.
//
//   OMP_NUM_THREADS=2 build/release/bin/bench_experts
//   build/release/bin/bench_experts --backend cuda --tokens 16384 --precision bf16
//
// The sizes are those of Qwen3-30B-A3B by default, with fewer tokens. Tokens choose experts at random, evenly. Rates
// are as in bench_ops.

#include <fmt/core.h>
#include <cstdint>
#include <exception>
#include <random>
#include <string>
#include <vector>

#include "sft/core/cast.hpp"
#include "sft/core/log.hpp"
#include "tools/benchmarks/op_bench.hpp"
#include "tools/benchmarks/step_options.hpp"

namespace sft {
namespace {

struct Options {
  std::string backend = "cpu", precision = "both";
  std::int64_t tokens = 512, hidden = 2048, columns = 768, experts = 128, choices = 8;
  int repetitions = 3;
};

/// False: help was asked for.
bool parse(int argc, char** argv, Options& options) {
  bench::CommandLine line("bench_experts");
  line.add("backend", options.backend, "cpu or cuda");
  line.add("precision", options.precision, "fp32, bf16 or both");
  line.add("tokens", options.tokens, "of a micro-batch");
  line.add("hidden", options.hidden, "columns of a token");
  line.add("columns", options.columns, "of gate and of up in an expert");
  line.add("experts", options.experts, "there are");
  line.add("choices", options.choices, "experts of a token");
  line.add("repetitions", options.repetitions, "of every op");
  return line.parse(argc, argv);
}

/// The ops of one layer, in one dtype. T tokens, E experts, k choices, R rows of all experts, C hidden size, F columns.
class ExpertOps {
 public:
  ExpertOps(const Options& options, bench::OpBench& bench, DType dtype)
      : bench_(bench),
        ops_(bench.ops()),
        dtype_(dtype),
        T(options.tokens),
        E(options.experts),
        k(options.choices),
        C(options.hidden),
        F(options.columns) {
    const std::int32_t alignment = options.backend == "cpu" ? 16 : 1;  // of the rows of each expert, as models have
    std::vector<std::int32_t> counts(static_cast<std::size_t>(E));
    std::mt19937 generator(1);
    std::uniform_int_distribution<std::size_t> expert(0, counts.size() - 1);
    for (std::int64_t i = 0; i < T * k; ++i) ++counts[expert(generator)];
    for (const std::int32_t count : counts) offsets_.push_back(offsets_.back() + round_up(count, alignment));
    R = offsets_.back();
  }

  void products();
  void memory_bound();

 private:
  Tensor make(DType dtype, std::initializer_list<std::int64_t> shape) { return bench_.make(dtype, shape); }

  bench::OpBench& bench_;
  ops::Backend& ops_;
  const DType dtype_;
  const std::int64_t T, E, k, C, F, s = static_cast<std::int64_t>(size_of(dtype_));
  std::int64_t R = 0;
  std::vector<std::int32_t> offsets_ = {0};
};

void ExpertOps::products() {
  struct Layer {
    const char* name;
    std::int64_t rows, columns;
  };
  for (const Layer& layer : {Layer{"gate_up", 2 * F, C}, Layer{"down", C, F}}) {
    bench_.part([&] {
      const Tensor x = make(dtype_, {R, layer.columns}), y = make(dtype_, {R, layer.rows}),
                   w = make(dtype_, {E, layer.rows, layer.columns}),
                   dw = make(DType::float32, {E, layer.rows, layer.columns});
      const auto of = [](const Tensor& all, std::int64_t e) {
        return all.rows(e, 1).view({all.shape[1], all.shape[2]});
      };
      const auto each = [&](auto product) {
        for (std::int64_t e = 0; e < E; ++e) {
          const std::int64_t begin = offsets_[static_cast<std::size_t>(e)],
                             count = offsets_[static_cast<std::size_t>(e) + 1] - begin;
          if (count > 0) ops_.run(product(e, x.rows(begin, count), y.rows(begin, count)));
        }
      };
      const double flops = 2.0 * static_cast<double>(R) * static_cast<double>(layer.rows * layer.columns);
      const auto time = [&](const char* what, const std::function<void()>& op) {
        bench_.product_bound(fmt::format("{} {}", layer.name, what), flops, 1, op);
      };
      time("forward, dense", [&] { ops_.run(ops::Matmul{.a = x, .b = of(w, 0), .c = y, .transpose_b = true}); });
      time("forward, one by one", [&] {
        each([&](std::int64_t e, const Tensor& a, const Tensor& c) {
          return ops::Matmul{.a = a, .b = of(w, e), .c = c, .transpose_b = true};
        });
      });
      time("forward, grouped",
           [&] { ops_.run(ops::GroupedMatmul{.a = x, .b = w, .c = y, .offsets = offsets_, .transpose_b = true}); });
      time("input gradient, dense", [&] { ops_.run(ops::Matmul{.a = y, .b = of(w, 0), .c = x}); });
      time("input gradient, one by one", [&] {
        each([&](std::int64_t e, const Tensor& c, const Tensor& a) {
          return ops::Matmul{.a = a, .b = of(w, e), .c = c};
        });
      });
      time("input gradient, grouped",
           [&] { ops_.run(ops::GroupedMatmul{.a = y, .b = w, .c = x, .offsets = offsets_}); });
      time("weight gradient, dense",
           [&] { ops_.run(ops::Matmul{.a = y, .b = x, .c = of(dw, 0), .transpose_a = true, .accumulate = true}); });
      time("weight gradient, one by one", [&] {
        each([&](std::int64_t e, const Tensor& b, const Tensor& a) {
          return ops::Matmul{.a = a, .b = b, .c = of(dw, e), .transpose_a = true, .accumulate = true};
        });
      });
      time("weight gradient, grouped",
           [&] { ops_.run(ops::GroupedWeightGradient{.dweight = dw, .x = y, .y = x, .offsets = offsets_}); });
    });
  }
}

void ExpertOps::memory_bound() {
  bench_.part([&] {
    const Tensor logits = make(DType::float32, {T, E}), dlogits = make(DType::float32, {T, E}),
                 weights = make(DType::float32, {T, k}), experts = make(DType::int32, {T, k}),
                 chosen = make(DType::int32, {T, k}), rows = make(DType::int32, {T, k}),
                 choices = make(DType::int32, {R}), counts = make(DType::int32, {E}),
                 offsets = make(DType::int32, {E + 1}), tokens = make(dtype_, {T, C}), gathered = make(dtype_, {R, C}),
                 sums = make(DType::float64, {2 * E});
    const ops::RouterRule rule{.normalize = true};
    bench_.memory_bound("router_forward", 4 * T * E + 8 * R, 1, [&] {
      ops_.run(
          ops::RouterForward{.logits = logits, .correction = {}, .experts = chosen, .weights = weights, .rule = rule});
    });
    bench_.memory_bound("router_backward", 8 * T * E + 8 * R, 1, [&] {
      ops_.run(ops::RouterBackward{
          .dlogits = dlogits, .logits = logits, .experts = experts, .dweights = weights, .rule = rule});
    });
    bench_.memory_bound("expert_order", 12 * R, 1, [&] {
      ops_.run(
          ops::ExpertOrder{.experts = experts, .counts = counts, .offsets = offsets, .choices = choices, .rows = rows});
    });
    bench_.memory_bound("router_sums", 4 * T * E, 1, [&] {
      ops_.run(ops::RouterSums{
          .logits = logits, .expert_counts = counts, .counts = sums.rows(0, E), .probabilities = sums.rows(E, E)});
    });
    bench_.memory_bound("router_sums_backward", 12 * T * E, 1, [&] {
      ops_.run(
          ops::RouterSumsBackward{.dlogits = dlogits, .logits = logits, .counts = sums.rows(0, E), .factor = 1e-9});
    });
    bench_.memory_bound("gather_tokens", s * (T + R) * C + 4 * R, 1, [&] {
      ops_.run(ops::GatherTokens{.out = gathered, .in = tokens, .choices = choices, .weights = {}, .num_choices = k});
    });
    bench_.memory_bound("combine_rows", s * (T + R) * C + 8 * R, 1, [&] {
      ops_.run(ops::CombineRows{.out = tokens, .in = gathered, .rows = rows, .weights = weights});
    });
    bench_.memory_bound("combine_weights_backward", s * (T + R) * C + 8 * R, 1, [&] {
      ops_.run(ops::CombineWeightsBackward{.dweights = weights, .dout = tokens, .in = gathered, .rows = rows});
    });
  });
  bench_.part([&] {
    const Tensor gate_up = make(dtype_, {R, 2 * F}), act = make(dtype_, {R, F}), dact = make(dtype_, {R, F});
    for (const auto& [name, rule] : {std::pair{"gelu_tanh", ops::GateRule{.gate = ops::Gate::gelu_tanh}},
                                     {"clamped_swish", {.gate = ops::Gate::clamped_swish, .interleaved = true}}}) {
      bench_.memory_bound(fmt::format("{} forward", name), 3 * s * R * F, 1, [&, gate = rule] {
        ops_.run(ops::GatedForward{.act = act, .gate_up = gate_up, .rule = gate});
      });
      bench_.memory_bound(fmt::format("{} backward", name), 6 * s * R * F, 1, [&, gate = rule] {
        ops_.run(ops::GatedBackward{.dgate_up = gate_up, .act = act, .dact = dact, .gate_up = gate_up, .rule = gate});
      });
    }
  });
}

void run(const Options& options) {
  const bool is_cuda = options.backend == "cuda";
  bench::OpBench bench(
      {.kind = is_cuda ? device::Kind::cuda : device::Kind::cpu,
       .repetitions = options.repetitions,
       .shapes = {.tokens = options.tokens, .hidden = options.hidden, .mlp = options.columns, .vocab = options.experts},
       .product_size = is_cuda ? 8192 : 2048});
  for (const DType dtype : {DType::float32, DType::bf16}) {
    if (options.precision == (dtype == DType::bf16 ? "fp32" : "bf16")) continue;
    bench.measure_roofs(dtype);
    ExpertOps experts(options, bench, dtype);
    experts.products();
    experts.memory_bound();
    fmt::print("sum_s {:.6f}\n", bench.take_total_s());
  }
}

}  // namespace
}  // namespace sft

int main(int argc, char** argv) {
  try {
    sft::Options options;
    if (sft::parse(argc, argv, options)) sft::run(options);
  } catch (const std::exception& error) {
    sft::log_error(error.what());
    return 1;
  }
  return 0;
}
