// SPDX-License-Identifier: Apache-2.0
// Training steps of a 40M Llama on any mesh, beside oneDNN's own matrix product in the same run.
//
//   ./bench_step --precision bf16
//   mpirun -np 4 ./bench_step --precision fp32 --dp_shard_size 4 --rows 1
//
// Prints lines of `name value`, the medians over the steps:
//   step_s, tokens_per_second      of a whole optimizer step, all ranks
//   step_processor_s               processor time of a step, all ranks: says more than step_s on a busy machine
//   model_gflops                   model FLOPs a second (no recomputation), all ranks
//   matmul_gflops                  oneDNN at 2048^3 on every rank at the same time, the fastest sample, all ranks; in
//                                  float32 where it has no bf16 product
//   share_of_matmul                the one over the other
//   ledger_mib, peak_resident_mib  the rank whose peak resident size is farthest from its ledger, before any matmul of
//   peak_over_ledger               the yardstick, and the ratio

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <ctime>
#include <limits>
#include <string>
#include <vector>

#include "benchmarks/square_matmul.hpp"
#include "benchmarks/step_options.hpp"
#include "sft/comm/session.hpp"
#include "sft/config/values.hpp"
#include "sft/device/ledger.hpp"
#include "sft/device/process_memory.hpp"
#include "support/engine_fixture.hpp"

namespace {

using namespace sft;

struct Options {
  std::string precision = "fp32";
  mesh::Layout layout;
  std::string sp_method = "ring";
  int ulysses_size = 0, zero_stage = 3, tp_sequence_parallel = 0;
  std::int64_t document_length = 0;
  std::int64_t rows = 4, length = 512, accumulation = 1, steps = 7;
};

/// False: help was asked for.
bool parse(int argc, char** argv, Options& options) {
  bench::CommandLine line("bench_step");
  line.add("precision", options.precision, "fp32 or bf16");
  line.add_mesh(options.layout);
  line.add("sp_method", options.sp_method, "ring, all_gather, ulysses or hybrid");
  line.add("ulysses_size", options.ulysses_size, "of hybrid");
  line.add("zero_stage", options.zero_stage, "0 to 3");
  line.add("tp_sequence_parallel", options.tp_sequence_parallel, "1: tokens are cut over tp between products");
  line.add("rows", options.rows, "rows of a micro-batch on each data rank");
  line.add("document_length", options.document_length, "tokens of each document of a row; 0: one document a row");
  line.add("length", options.length, "tokens of a row");
  line.add("accumulation", options.accumulation, "micro-batches of a step");
  line.add("steps", options.steps, "timed steps");
  return line.parse(argc, argv);
}

config::Config make_config(const Options& options) {
  config::Config config = bench::small_llama(/*num_layers=*/8, /*vocab_size=*/32000, options.precision);
  config.train.per_device_train_batch_size = options.rows;
  config.train.gradient_accumulation_steps = options.accumulation;
  config::read(options.sp_method, config.parallel.sp_method);
  config.parallel.ulysses_size = options.ulysses_size;
  config.parallel.zero_stage = options.zero_stage;
  config.parallel.tp_sequence_parallel = options.tp_sequence_parallel != 0;
  return config;
}

/// Rows of documents of `document_length` tokens, every token a target.
std::vector<data::Row> make_rows(std::int64_t num_rows, std::int64_t length, std::int64_t document_length,
                                 std::int64_t vocab_size, std::int64_t step) {
  std::vector<data::Row> rows(num_rows);
  auto number = static_cast<std::uint64_t>(step) + 1;
  for (data::Row& row : rows) {
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
  constexpr double mib = 1 << 20;
  std::vector<double> numbers(2 * world.size());
  numbers[2 * world.rank()] = static_cast<double>(ledger.total_bytes()) / mib;
  numbers[2 * world.rank() + 1] = static_cast<double>(device::peak_resident_bytes()) / mib;
  world.sum(std::span<double>(numbers));
  Memory worst{numbers[0], numbers[1]};
  for (int rank = 1; rank < world.size(); ++rank) {
    const Memory memory{numbers[2 * rank], numbers[2 * rank + 1]};
    if (std::abs(memory.ratio() - 1.0) > std::abs(worst.ratio() - 1.0)) worst = memory;
  }
  return worst;
}

int run(comm::Session& session, const Options& options) {
  const comm::Group& world = session.world();
  const config::Config config = make_config(options);
  const test::Mesh mesh(session.world(), options.layout, config.model);
  test::EngineFixture fixture(config, options.length, mesh, session);
  fixture.engine().initialize();
  const std::int64_t num_rows = options.rows * options.accumulation * mesh.place.data_size();
  train::StepResult result;
  // From when all begin to when all are done.
  const auto seconds_of = [&](const auto& work) {
    test::barrier(world);
    const auto start = std::chrono::steady_clock::now();
    work();
    test::barrier(world);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  double processor_s = 0.0;  // of the last step, on this rank
  const auto timed_step = [&](std::int64_t step) {
    const std::vector<data::Row> rows =
        make_rows(num_rows, options.length, options.document_length > 0 ? options.document_length : options.length,
                  config.model.vocab_size, step);
    return seconds_of([&] {
      const std::clock_t start = std::clock();
      result = fixture.step(rows, step, 1e-4);
      processor_s = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
    });
  };

  constexpr std::int64_t num_warm_up_steps = 2;
  for (std::int64_t step = 0; step < num_warm_up_steps; ++step) timed_step(step);
  const Memory memory = measure_memory(fixture.ledger(), world);
  bench::SquareMatmul matmul(2048, options.precision == "bf16" ? DType::bf16 : DType::float32);
  std::vector<double> step_times_s, step_processor_times_s;
  double matmul_s = std::numeric_limits<double>::infinity();
  for (std::int64_t step = 0; step < options.steps; ++step) {
    step_times_s.push_back(timed_step(num_warm_up_steps + step));
    world.sum(std::span<double>(&processor_s, 1));
    step_processor_times_s.push_back(processor_s);
    for (int sample = 0; sample < 3; ++sample) matmul_s = std::min(matmul_s, seconds_of([&] { matmul.run(); }));
  }

  if (world.rank() != 0) return 0;
  const double matmul_flops = matmul.flops() * world.size() / matmul_s;
  const double step_s = bench::median(step_times_s), model_flops = result.model_flops / step_s;
  std::printf("step_s             %.4f\n", step_s);
  std::printf("step_processor_s   %.4f\n", bench::median(step_processor_times_s));
  std::printf("tokens_per_second  %.0f\n", static_cast<double>(result.num_tokens) / step_s);
  std::printf("model_gflops       %.1f\n", model_flops / 1e9);
  std::printf("matmul_gflops      %.1f\n", matmul_flops / 1e9);
  std::printf("share_of_matmul    %.3f\n", model_flops / matmul_flops);
  std::printf("ledger_mib         %.1f\n", memory.ledger_mib);
  std::printf("peak_resident_mib  %.1f\n", memory.peak_mib);
  std::printf("peak_over_ledger   %.3f\n", memory.ratio());
  std::printf("loss               %.4f\n", result.loss);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return comm::run_program(argc, argv, [&](comm::Session& session) {
    Options options;
    return parse(argc, argv, options) ? run(session, options) : 0;
  });
}
