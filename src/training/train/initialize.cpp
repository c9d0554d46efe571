// SPDX-License-Identifier: Apache-2.0
#include "initialize.hpp"

#include <cmath>
#include <string>

namespace sft::train {

namespace {

/// FNV-1a of the name, mixed with the seed.
std::uint64_t stream_of(std::uint64_t seed, const std::string& name) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return hash ^ (seed * 0x9e3779b97f4a7c15U);
}

}  // namespace

void initialize_parameters(const parallel::ShardMap& shard_map, std::uint64_t seed, double stddev, Tensor parameters,
                           ops::Backend& backend, bool keeps_copies) {
  for (const parallel::ShardRange& gap : shard_map.padding())
    backend.run(ops::Fill{parameters.rows(gap.begin, gap.count), 0.0F});
  for (const parallel::Piece& piece : shard_map.pieces()) {
    const parallel::Parameter& p = *piece.parameter;
    if (keeps_copies && !p.copy_of.empty()) continue;
    if (p.init == parallel::Init::ones || p.init == parallel::Init::zeros) {
      backend.run(
          ops::Fill{parameters.rows(piece.shard_offset, piece.count), p.init == parallel::Init::ones ? 1.0F : 0.0F});
      continue;
    }
    const std::uint64_t stream = stream_of(seed, p.name);
    for (const parallel::LogicalRectangle& r : parallel::ShardMap::rectangles(piece)) {
      // Whole logical rows are one run of numbers; parts of rows are a run each.
      const bool whole = r.num_columns == p.columns;
      const std::int64_t num_runs = whole ? 1 : r.num_rows;
      const std::int64_t run = whole ? r.num_rows * r.num_columns : r.num_columns;
      for (std::int64_t i = 0; i < num_runs; ++i) {
        const Tensor part = parameters.rows(r.shard_offset + i * run, run);
        const std::int64_t first = (r.row_begin + i) * p.columns + r.column_begin;
        if (p.init == parallel::Init::kaiming) {
          const std::int64_t fan_in = p.fan_in > 0 ? p.fan_in : p.columns;
          backend.run(ops::FillUniform{part, stream, first, 1.0F / std::sqrt(static_cast<float>(fan_in))});
        } else {
          const double deviation = p.init == parallel::Init::by_rows ? 1.0 / static_cast<double>(p.rows) : stddev;
          backend.run(ops::FillNormal{part, stream, first, static_cast<float>(deviation)});
        }
      }
    }
  }
}

}  // namespace sft::train
