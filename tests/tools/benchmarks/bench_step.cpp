// SPDX-License-Identifier: Apache-2.0
// Training steps of a model on any mesh, of CPUs or of GPUs.
//
//   ./bench_step --precision bf16
//   mpirun -np 4 ./bench_step --precision fp32 --dp_shard_size 4 --rows 1
//   mpirun -np 1 ./bench_step --backend cuda --precision bf16 --model qwen3-8b --layers fit --rows 1 --length 16384
//
// Prints lines of `name value`; times are medians over the steps:
//   layers                         that were trained, and of how many
//   step_s, tokens_per_second      of a whole optimizer step, all ranks
//   loss                           of the last step
//   first_step_s                   from the start of rank 0's process to the end of the first step
// on CPUs, beside oneDNN's own matrix product in the same run,
//   step_processor_s               processor time of a step, all ranks: says more than step_s on a busy machine
//   model_gflops                   model FLOPs a second (no recomputation), all ranks
//   matmul_gflops                  oneDNN at 2048^3 on every rank at the same time, the fastest sample, all ranks; in
//                                  float32 where it has no bf16 product
//   share_of_matmul                the one over the other
//   ledger_mib, peak_resident_mib  the rank whose peak resident size is farthest from its ledger, before any matmul of
//   peak_over_ledger               the yardstick, and the ratio
// and on GPUs
//   model_tflops                   model FLOPs a second and GPU
//   mfu                            their share of the peak of the GPU's data sheet, where it is known, in bf16
//   ledger_mib, peak_gpu_mib       of the GPU's memory: planned, and used, all that CUDA and its libraries hold
//   included

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "sft/comm/session.hpp"
#include "sft/config/values.hpp"
#include "sft/core/program.hpp"
#include "sft/device/factory.hpp"
#include "sft/device/ledger.hpp"
#include "sft/machine/node.hpp"
#include "support/engine_fixture.hpp"
#include "tools/benchmarks/fitting_layers.hpp"
#include "tools/benchmarks/gpu_peak.hpp"
#include "tools/benchmarks/square_matmul.hpp"
#include "tools/benchmarks/step_options.hpp"

namespace {

using namespace sft;

constexpr double mib = 1 << 20;

struct Options {
  std::string backend = "cpu", model = "small", layers = "all", precision = "fp32", checkpointing = "none";
  AxisArray<int> mesh_sizes{1, {}};
  std::string sp_method = "ring", attention = "auto";
  int ulysses_size = 0, zero_stage = 3, tp_sequence_parallel = 0;
  std::int64_t document_length = 0, mlp_tile_tokens = 0;
  std::int64_t rows = 4, length = 512, accumulation = 1, steps = 7;
  double peak_tflops = 0.0;

  [[nodiscard]] device::Kind kind() const { return backend == "cuda" ? device::Kind::cuda : device::Kind::cpu; }
};

/// False: help was asked for.
bool parse(int argc, char** argv, Options& options) {
  bench::CommandLine line("bench_step");
  line.add("backend", options.backend, "cpu or cuda");
  line.add("model", options.model, bench::model_names);
  line.add("layers", options.layers,
           "number of layers; all: those of the model; fit: as many as one GPU has memory for");
  line.add("precision", options.precision, "fp32 or bf16");
  line.add("activation_checkpointing", options.checkpointing, "none, selective or full");
  line.add("attention", options.attention, "on GPUs: auto, own, cudnn_forward or cudnn");
  line.add("mlp_tile_tokens", options.mlp_tile_tokens, "tokens that the MLP works on at a time; 0: all");
  line.add_mesh(options.mesh_sizes);
  line.add("sp_method", options.sp_method, "ring, all_gather, ulysses or hybrid");
  line.add("ulysses_size", options.ulysses_size, "of hybrid");
  line.add("zero_stage", options.zero_stage, "0 to 3");
  line.add("tp_sequence_parallel", options.tp_sequence_parallel, "1: tokens are cut over tp between products");
  line.add("rows", options.rows, "rows of a micro-batch on each data rank");
  line.add("document_length", options.document_length, "tokens of each document of a row; 0: one document a row");
  line.add("length", options.length, "tokens of a row");
  line.add("accumulation", options.accumulation, "micro-batches of a step");
  line.add("steps", options.steps, "timed steps");
  line.add("peak_tflops", options.peak_tflops, "of a GPU, for mfu; 0: what its data sheet says");
  return line.parse(argc, argv);
}

config::Config make_config(const Options& options, device::Device& device, const comm::Group& world) {
  config::Config config;
  config.model = bench::model_by_name(options.model);
  config.train.precision = options.precision == "bf16" ? config::Precision::bf16 : config::Precision::fp32;
  config.train.per_device_train_batch_size = options.rows;
  config.train.gradient_accumulation_steps = options.accumulation;
  config.train.mlp_tile_tokens = options.mlp_tile_tokens;
  config::read(options.checkpointing, config.train.activation_checkpointing);
  config::read(options.attention, config.device.attention);
  config::read(options.sp_method, config.parallel.sp_method);
  config.parallel.ulysses_size = options.ulysses_size;
  config.parallel.zero_stage = options.zero_stage;
  config.parallel.tp_sequence_parallel = options.tp_sequence_parallel != 0;
  if (options.layers == "fit") {
    config.model.num_hidden_layers =
        bench::fitting_layers(config, options.length, mesh::Layout(options.mesh_sizes), device, world.size());
  } else if (options.layers != "all") {
    config::read(options.layers, config.model.num_hidden_layers);
  }
  return config;
}

/// Rows of documents of `document_length` tokens, every token a target.
std::vector<rows::Row> make_rows(std::int64_t num_rows, std::int64_t length, std::int64_t document_length,
                                 std::int64_t vocab_size, std::int64_t step) {
  std::vector<rows::Row> rows(num_rows);
  auto number = static_cast<std::uint64_t>(step) + 1;
  for (rows::Row& row : rows) {
    for (std::int64_t begin = 0; begin < length; begin += document_length) {
      row.document_lengths.push_back(static_cast<std::int32_t>(std::min(document_length, length - begin)));
    }
    row.loss_weight.assign(length, 1.0f);
    for (std::int64_t t = 0; t < length; ++t) {
      number = number * 6364136223846793005U + 1442695040888963407U;  // Knuth's linear congruential generator
      row.tokens.push_back(static_cast<std::int32_t>((number >> 33) % vocab_size));
    }
  }
  return rows;
}

struct Memory {
  double ledger_mib, peak_mib;
  [[nodiscard]] double ratio() const { return peak_mib / ledger_mib; }
};

/// Of the rank where the two are farthest apart. Collective.
Memory measure_memory(const device::Ledger& ledger, const comm::Group& world) {
  std::vector<double> numbers(2 * world.size());
  numbers[2 * world.rank()] = static_cast<double>(ledger.total_bytes()) / mib;
  numbers[2 * world.rank() + 1] = static_cast<double>(machine::peak_resident_bytes()) / mib;
  world.sum(std::span<double>(numbers));
  Memory worst{numbers[0], numbers[1]};
  for (int rank = 1; rank < world.size(); ++rank) {
    const Memory memory{numbers[2 * rank], numbers[2 * rank + 1]};
    if (std::abs(memory.ratio() - 1.0) > std::abs(worst.ratio() - 1.0)) worst = memory;
  }
  return worst;
}

/// Seconds from when all begin to when all are done. Collective.
template <class Work>
double seconds_of(const comm::Group& world, const Work& work) {
  test::barrier(world);
  const auto start = std::chrono::steady_clock::now();
  work();
  test::barrier(world);
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

double seconds_since_start() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration<double>(now).count() - process_start_time_s();
}

/// Steps on rows that are new each time, one after the other.
class Steps {
 public:
  /// Runs the first few already.
  Steps(const Options& options, const config::Config& config, test::EngineFixture& fixture, const comm::Group& world,
        int num_warm_up_steps)
      : options_(options), config_(config), fixture_(fixture), world_(world) {
    fixture.engine().initialize();
    for (int i = 0; i < num_warm_up_steps; ++i) {
      (void)run();
      if (i == 0) first_step_s = seconds_since_start();
    }
  }

  /// A step's time. The rows are cut before it, as the loader's thread does in a run. Collective.
  double run() {
    const std::int64_t num_rows = options_.rows * options_.accumulation * fixture_.mesh().place.data_size();
    const std::vector<rows::MicroBatch> micro_batches = fixture_.deal(
        make_rows(num_rows, options_.length, options_.document_length > 0 ? options_.document_length : options_.length,
                  config_.model.vocab_size, num_steps_));
    train::Engine& engine = fixture_.engine();
    return seconds_of(world_, [&] {
      const std::clock_t start = std::clock();
      engine.begin_step(++num_steps_, 1e-4, micro_batches.front().step_counts);
      for (const rows::MicroBatch& batch : micro_batches) engine.add_micro_batch(batch);
      result = engine.finish_step();
      engine.stream().synchronize();
      processor_s = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    });
  }

  // Of the last step.
  train::StepResult result;
  double processor_s = 0.0;  ///< on this rank
  double first_step_s = 0.0;

 private:
  const Options& options_;
  const config::Config& config_;
  test::EngineFixture& fixture_;
  const comm::Group& world_;
  std::int64_t num_steps_ = 0;
};

void print_common(const Options& options, const config::Config& config, const Steps& steps, double step_s) {
  std::printf("layers             %lld of %lld\n", static_cast<long long>(config.model.num_hidden_layers),
              static_cast<long long>(bench::model_by_name(options.model).num_hidden_layers));
  std::printf("step_s             %.4f\n", step_s);
  std::printf("tokens_per_second  %.0f\n", static_cast<double>(steps.result.num_tokens) / step_s);
  std::printf("loss               %.4f\n", steps.result.loss);
  std::printf("first_step_s       %.2f\n", steps.first_step_s);
}

void run_on_cpus(const Options& options, const config::Config& config, test::EngineFixture& fixture,
                 const comm::Group& world) {
  Steps steps(options, config, fixture, world, /*num_warm_up_steps=*/2);
  const Memory memory = measure_memory(fixture.ledger(), world);
  bench::SquareMatmul matmul(2048, options.precision == "bf16" ? DType::bf16 : DType::float32);
  std::vector<double> step_times_s, step_processor_times_s;
  double matmul_s = std::numeric_limits<double>::infinity();
  for (std::int64_t step = 0; step < options.steps; ++step) {
    step_times_s.push_back(steps.run());
    world.sum(std::span<double>(&steps.processor_s, 1));
    step_processor_times_s.push_back(steps.processor_s);
    for (int sample = 0; sample < 3; ++sample) matmul_s = std::min(matmul_s, seconds_of(world, [&] { matmul.run(); }));
  }

  if (world.rank() != 0) return;
  const double matmul_flops = matmul.flops() * world.size() / matmul_s;
  const double step_s = bench::median(step_times_s), model_flops = steps.result.model_flops / step_s;
  print_common(options, config, steps, step_s);
  std::printf("step_processor_s   %.4f\n", bench::median(step_processor_times_s));
  std::printf("model_gflops       %.1f\n", model_flops / 1e9);
  std::printf("matmul_gflops      %.1f\n", matmul_flops / 1e9);
  std::printf("share_of_matmul    %.3f\n", model_flops / matmul_flops);
  std::printf("ledger_mib         %.1f\n", memory.ledger_mib);
  std::printf("peak_resident_mib  %.1f\n", memory.peak_mib);
  std::printf("peak_over_ledger   %.3f\n", memory.ratio());
}

void run_on_gpus(const Options& options, const config::Config& config, test::EngineFixture& fixture,
                 device::Device& device, const comm::Group& world) {
  Steps steps(options, config, fixture, world, /*num_warm_up_steps=*/1);
  std::vector<double> step_times_s;
  for (std::int64_t step = 0; step < options.steps; ++step) step_times_s.push_back(steps.run());
  const auto peak_bytes = static_cast<double>(device.peak_bytes());

  if (world.rank() != 0) return;
  const double step_s = bench::median(step_times_s);
  const double model_tflops = steps.result.model_flops / step_s / world.size() * 1e-12;
  const double peak = options.peak_tflops > 0 ? options.peak_tflops : bench::peak_bf16_tflops(device.description());
  print_common(options, config, steps, step_s);
  std::printf("model_tflops       %.1f\n", model_tflops);
  if (peak > 0 && config.train.precision == config::Precision::bf16) {
    std::printf("mfu                %.3f\n", model_tflops / peak);
  }
  std::size_t ledger_bytes = 0;
  for (std::size_t i = 0; i < device::num_labels; ++i) {
    ledger_bytes += fixture.ledger().bytes(static_cast<device::Label>(i), device::Space::device);
  }
  std::printf("ledger_mib         %.1f\n", static_cast<double>(ledger_bytes) / mib);
  std::printf("peak_gpu_mib       %.1f\n", peak_bytes / mib);
}

int run(comm::Session& session, const Options& options) {
  const comm::Group &world = session.world(), &node = session.node();
  const bool is_cuda = options.kind() == device::Kind::cuda;
  std::unique_ptr<device::Device> own =
      device::make_device(options.kind(), {.num_local_ranks = node.size(), .gpu = is_cuda ? node.rank() : 0});
  device::Device& device = *own;
  const config::Config config = make_config(options, device, world);
  test::EngineFixture fixture(config, options.length, test::Mesh(world, mesh::Layout(options.mesh_sizes), config.model),
                              session, std::move(own));
  if (is_cuda) {
    run_on_gpus(options, config, fixture, device, world);
  } else {
    run_on_cpus(options, config, fixture, world);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return comm::run_program(argc, argv, [&](comm::Session& session) {
    Options options;
    return parse(argc, argv, options) ? run(session, options) : 0;
  });
}
