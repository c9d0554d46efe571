// SPDX-License-Identifier: Apache-2.0
#include "ops/cuda/planning.hpp"

#include <algorithm>

#include "ops/cuda/attention_tiles.hpp"

namespace sft::ops::cuda {

// A document of one token has a tile and a range on each side: at worst all have. Beyond that a plan has whole tiles
// and, in each chunk of a row, a document that reaches over its borders. Of several plans with room for others each may
// round the rest up to twice of it; one alone has no more tiles than rows. Two plans can be there at a time, the old
// one while the new one is made, anywhere in the pool: three times the size of one always suffices for both. Plans of
// more spans than tokens, or over more keys than were asked for (those of a cache), find room in the slack, which holds
// the tiles of a million keys.
std::size_t plan_pool_bytes(const Shapes& shapes, const AttentionNeeds& needs) {
  constexpr std::int64_t slack_bytes = std::int64_t{256} << 10, num_generations = 3;
  const std::int64_t queries = std::max(needs.plan_queries, shapes.tokens), keys = std::max(needs.plan_keys, queries);
  const std::int64_t num_parts = keys / std::max<std::int64_t>(queries, 1) + needs.num_plans;
  const std::int64_t num_whole_tiles = needs.num_plans * ((queries + keys) / attention_tile_rows + 1);
  const std::int64_t of_documents = 3 * queries + keys + 16 * num_parts;
  constexpr std::int64_t lists_of_plan = 4;
  const bool rounds_up = needs.repeats && needs.num_plans > 1;
  const std::int64_t rounded =
      !rounds_up ? of_documents : 2 * of_documents + lists_of_plan * least_parts * needs.num_plans;
  const std::int64_t num_entries = rounded + num_whole_tiles;
  static_assert(sizeof(AttentionTile) == sizeof(AttentionRange));
  const auto padding = static_cast<std::int64_t>(plan_granularity_bytes) * needs.num_plans;
  const std::int64_t kind_bytes = num_entries * static_cast<std::int64_t>(sizeof(AttentionTile)) + padding;
  return padded(num_generations * needs.num_kinds * kind_bytes + slack_bytes);
}

}  // namespace sft::ops::cuda
