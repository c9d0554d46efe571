// SPDX-License-Identifier: Apache-2.0
// Checkpoints of thousands of ranks, with planned places and sparse shard files: what rank 0 does before the name says
// complete, and what a rank reads to resume.
//
//   ./bench_writers [FOLDER]
//
// A line for each number of writers: bytes and time of the map (checkpoint.h5), whether whole tensors are listed for
// other tools, pieces that such a list would have, and opens, bytes and time of a rank that resumes on the same mesh,
// on half as many ranks and on twice as many.

#include <fmt/core.h>

#include <chrono>
#include <filesystem>
#include <string>

#include "checkpoint/header.hpp"
#include "checkpoint/index_tensors.hpp"
#include "sft/core/log.hpp"
#include "support/layout.hpp"
#include "support/planned_checkpoint.hpp"

namespace {

using namespace sft;
namespace fs = std::filesystem;

std::string describe(const test::Cost& cost) {
  return fmt::format("{} opens, {:.1f} of {:.1f} MB, {:.3f} s", cost.num_opens,
                     static_cast<double>(cost.num_bytes) / 1e6, static_cast<double>(cost.own_bytes) / 1e6, cost.time_s);
}

void measure(const std::string& folder, int shards, int tp) {
  fs::create_directories(folder);
  const test::Layout writers{1, shards, 1, tp};
  const config::Config config;
  const checkpoint::Position position;
  const checkpoint::FileMap map = test::make_checkpoint(folder, writers, 8);
  auto start = std::chrono::steady_clock::now();
  const bool has_few = checkpoint::has_few_pieces(map);
  const double decide_s = test::seconds_since(start);
  start = std::chrono::steady_clock::now();
  (void)checkpoint::write_map(folder, config, "byte", position, map);
  const double write_s = test::seconds_since(start);
  const std::string text = to_text(map);
  start = std::chrono::steady_clock::now();
  (void)checkpoint::parse_file_map(text, map.files, folder);
  const double parse_s = test::seconds_since(start);
  log_info(
      fmt::format("{} writers ({} x tp {}): map {:.2f} MB, written in {:.3f} s, read in {:.3f} s; lists tensors: {} "
                  "(decided in {:.3f} s)",
                  writers.size(), shards, tp, static_cast<double>(fs::file_size(checkpoint::index_path(folder))) / 1e6,
                  write_s, parse_s, has_few ? "yes" : "no", decide_s));
  for (const int readers : {shards, shards / 2, shards * 2}) {
    const test::Layout mesh{1, readers, 1, tp};
    log_info(fmt::format("  a rank of {}: {}", mesh.size(),
                         describe(test::resume(folder, text, map.files, mesh, mesh.size() / 3, readers == shards))));
  }
  fs::remove_all(folder);
}

int run(int argc, char** argv) {
  const std::string folder = argc > 1 ? argv[1] : "bench_writers";
  measure(folder, 512, 1);
  measure(folder, 512, 8);
  measure(folder, 2048, 8);
  return 0;
}

}  // namespace

int main(int argc, char** argv) { return run(argc, argv); }
