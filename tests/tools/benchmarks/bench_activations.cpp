// SPDX-License-Identifier: Apache-2.0
// What it costs in time, and saves in memory, not to keep activations, or with tp a part of them: steps of one model,
// in turn with each way of keeping them, so that a machine that others use too treats all alike.
//
//   ./bench_activations --precision bf16
//   mpirun -np 4 ./bench_activations --tp_size 2 --sp_size 2
//
// A line for each way: the median over the rounds of the time of a step over that of keeping all in the same round, the
// same of processor time (all threads of all ranks), and the MiB of activations and workspace in rank 0's ledger.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "sft/comm/session.hpp"
#include "support/barrier.hpp"
#include "support/engine_fixture.hpp"
#include "support/temporary_folder.hpp"
#include "tools/benchmarks/step_options.hpp"

namespace {

using namespace sft;
using Checkpointing = config::ActivationCheckpointing;

struct Options {
  std::string precision = "bf16";
  AxisArray<int> mesh_sizes{1, {}};
  std::int64_t layers = 8, qk_norm = 0, rows = 2, length = 512, tile = 256, rounds = 9;
};

/// Nothing: help was asked for.
std::optional<Options> parse(int argc, char** argv) {
  Options options;
  bench::CommandLine line("bench_activations");
  line.add("precision", options.precision, "fp32 or bf16");
  line.add_mesh(options.mesh_sizes);
  line.add("layers", options.layers, "of the model: hidden 512, 8/4 heads of 64, MLP 1408, vocabulary 8192");
  line.add("qk_norm", options.qk_norm, "1: with norms of queries and keys");
  line.add("rows", options.rows, "rows of a micro-batch on each data rank, each one document");
  line.add("length", options.length, "tokens of a row");
  line.add("tile", options.tile, "tokens of a tile of the MLP, where there are tiles");
  line.add("rounds", options.rounds, "timed steps of each way");
  return line.parse(argc, argv) ? std::optional(options) : std::nullopt;
}

struct Way {
  const char* name;
  Checkpointing checkpointing;
  bool is_tiled, is_offloaded, cuts_tokens = false;
};

/// Those that do anything on the mesh.
std::vector<Way> ways_on(const mesh::Layout& layout) {
  std::vector<Way> ways{
      {"none", Checkpointing::none, false, false},          {"selective", Checkpointing::selective, false, false},
      {"full", Checkpointing::full, false, false},          {"none, tiles", Checkpointing::none, true, false},
      {"full, tiles", Checkpointing::full, true, false},    {"none, in a file", Checkpointing::none, false, true},
      {"full, in a file", Checkpointing::full, false, true}};
  if (layout[Axis::tp] == 1) return ways;
  ways.push_back({"none, cut", Checkpointing::none, false, false, true});
  ways.push_back({"full, cut", Checkpointing::full, false, false, true});
  return ways;
}

config::Config make_config(const Options& options, const Way& way, const std::string& folder) {
  config::Config config = bench::small_llama(options.layers, /*vocab_size=*/8192, options.precision);
  config.model.qk_norm = options.qk_norm != 0;
  config.train.per_device_train_batch_size = options.rows;
  config.train.activation_checkpointing = way.checkpointing;
  config.train.mlp_tile_tokens = way.is_tiled ? options.tile : 0;
  config.train.activation_offload = way.is_offloaded;
  config.train.offload_folder = folder;
  config.parallel.tp_sequence_parallel = way.cuts_tokens;
  return config;
}

std::vector<rows::Row> make_rows(std::int64_t num_rows, std::int64_t length, std::int64_t vocab_size) {
  std::vector<rows::Row> rows(static_cast<std::size_t>(num_rows));
  std::int64_t number = 1;
  for (rows::Row& row : rows) {
    row.document_lengths = {static_cast<std::int32_t>(length)};
    row.loss_weight.assign(static_cast<std::size_t>(length), 1.0F);
    for (std::int64_t t = 0; t < length; ++t) {
      row.tokens.push_back(static_cast<std::int32_t>(number % vocab_size));
      number = (number * 1103515245 + 12345) % (std::int64_t{1} << 31);
    }
  }
  return rows;
}

double processor_s() {
  timespec time{};
  ::clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

/// Of one step, all ranks together.
struct Cost {
  double wall_s, processor_s;
};

using bench::median;

int run(comm::Session& session, const Options& options) {
  const comm::Group& world = session.world();
  const test::TemporaryFolder folder;
  const std::vector<Way> ways = ways_on(mesh::Layout(options.mesh_sizes));
  const config::Config plain = make_config(options, ways.front(), folder.path());
  const test::Mesh mesh(world, mesh::Layout(options.mesh_sizes), plain.model);
  const std::vector<rows::Row> rows =
      make_rows(options.rows * mesh.place.data_size(), options.length, plain.model.vocab_size);
  std::vector<std::unique_ptr<test::EngineFixture>> fixtures;
  for (const Way& way : ways) {
    fixtures.push_back(
        std::make_unique<test::EngineFixture>(make_config(options, way, folder.path()), options.length, mesh, session));
    fixtures.back()->engine().initialize();
  }
  const auto cost_of = [&](test::EngineFixture& fixture, std::int64_t step) {
    test::barrier(world);
    const auto start = std::chrono::steady_clock::now();
    const double before_s = processor_s();
    static_cast<void>(fixture.step(rows, step, 1e-4));
    std::vector<double> spent_s{processor_s() - before_s};
    test::barrier(world);
    const double wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    world.sum(std::span<double>(spent_s));
    return Cost{wall_s, spent_s.front()};
  };
  std::vector<std::vector<double>> wall_ratios(ways.size()), processor_ratios(ways.size());
  std::vector<double> plain_wall_s;
  for (std::int64_t round = -1; round < options.rounds; ++round) {  // the first warms up
    std::vector<Cost> costs;
    for (const auto& fixture : fixtures) costs.push_back(cost_of(*fixture, round + 1));
    if (round < 0) continue;
    plain_wall_s.push_back(costs.front().wall_s);
    for (std::size_t way = 0; way < ways.size(); ++way) {
      wall_ratios[way].push_back(costs[way].wall_s / costs.front().wall_s);
      processor_ratios[way].push_back(costs[way].processor_s / costs.front().processor_s);
    }
  }
  if (world.rank() != 0) return 0;
  std::printf("a step that keeps all: %.3f s\n", median(plain_wall_s));
  std::printf("%-16s %6s %10s %12s %10s\n", "", "time", "processor", "activations", "workspace");
  constexpr double mib = 1 << 20;
  for (std::size_t way = 0; way < ways.size(); ++way) {
    const auto mib_of = [&](device::Label label) {
      return static_cast<double>(fixtures[way]->ledger().bytes(label)) / mib;
    };
    std::printf("%-16s %6.3f %10.3f %8.1f MiB %6.1f MiB\n", ways[way].name, median(wall_ratios[way]),
                median(processor_ratios[way]), mib_of(device::Label::activations), mib_of(device::Label::workspace));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  return comm::run_program(argc, argv, [&](comm::Session& session) {
    const std::optional<Options> options = parse(argc, argv);
    return options ? run(session, *options) : 0;
  });
}
