// SPDX-License-Identifier: Apache-2.0
#include "tools/benchmarks/fitting_layers.hpp"

#include <cstddef>
#include <optional>

#include "sft/config/parse.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"
#include "sft/machine/node.hpp"
#include "sft/rank/rank_plan.hpp"
#include "sft/rows/micro_batch_limits.hpp"

namespace sft::bench {

namespace {

/// Of the GPU, by the arenas of a rank that trains alone.
std::size_t planned_bytes(const config::ValidConfig& config, std::int64_t length) {
  rank::RankPlan plan(config, rows::limits_of_full_rows(config->train.per_device_train_batch_size, length),
                      mesh::Place(config, 0), {.kind = device::Kind::cuda});
  rank::RankPlan::Arenas arenas = plan.measure();
  std::size_t bytes = 0;
  rank::for_each_arena(arenas, [&](device::Label, device::Space space, const device::Arena& arena) {
    if (space == device::Space::device) bytes += arena.used_bytes();
  });
  return bytes;
}

}  // namespace

std::int64_t fitting_layers(config::Config config, std::int64_t length, const mesh::Layout& layout,
                            device::Device& device, int num_ranks) {
  const std::optional<device::OwnMemory> memory = device.own_memory();
  if (num_ranks != 1 || layout.size() != 1 || !memory) {
    throw_config_error("the layers that fit cannot be counted", "that is done for one rank and its GPU alone",
                       "give their number with --layers");
  }
  config.parallel.dp_shard_size = 1;
  config.data.train_files = {"rows in memory"};
  // What CUDA loads later, and what the allocator leaves unused between large blocks.
  const std::size_t reserve = rank::later_gpu_bytes + memory->total_bytes / 50;
  const std::size_t taken = memory->used_bytes + reserve;
  const std::size_t room = memory->total_bytes > taken ? memory->total_bytes - taken : 0;
  for (std::int64_t layers = config.model.num_hidden_layers; layers > 0; --layers) {
    config.model.num_hidden_layers = layers;
    if (planned_bytes(config::validate(config, 1), length) <= room) return layers;
  }
  throw_config_error("not one layer fits into " + format_bytes(room), "so much of the GPU's memory is free",
                     "use shorter rows, fewer rows or more recomputation");
}

}  // namespace sft::bench
