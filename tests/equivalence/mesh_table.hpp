// SPDX-License-Identifier: Apache-2.0
#pragma once
// The meshes that must train like one rank.

#include <algorithm>
#include <array>
#include <iterator>
#include <vector>

#include "sft/config/config.hpp"
#include "support/awkward_data.hpp"
#include "support/layout.hpp"

namespace sft::test {

enum class Family { llama, qwen2, qwen3, gemma3, olmo2 };

[[nodiscard]] inline config::Model model_of(Family family) {
  switch (family) {
    case Family::llama:
      return small_llama();
    case Family::qwen2:
      return small_qwen2();
    case Family::qwen3:
      break;
    case Family::gemma3:
      return small_gemma3();
    case Family::olmo2:
      return small_olmo2();
  }
  return small_qwen3();
}

struct MeshCase {
  test::Layout layout;  ///< dp_replicate x dp_shard x sp x tp
  Family family;
  config::Reshard reshard = config::Reshard::always;
};

/// Every axis alone and with every other, odd sizes, key/value heads fewer than tp (llama, qwen2
/// and olmo2 have 2, qwen3 and gemma3 have 1), replicate x tp without shard, and no resharding.
inline const std::vector<MeshCase> mesh_table{
    // 2 ranks
    {{2, 1, 1, 1}, Family::qwen2},
    {{1, 2, 1, 1}, Family::llama},
    {{1, 2, 1, 1}, Family::qwen3, config::Reshard::never},
    {{1, 1, 2, 1}, Family::qwen3},
    {{1, 1, 1, 2}, Family::qwen2},
    {{1, 2, 1, 1}, Family::gemma3},
    {{1, 1, 1, 2}, Family::olmo2},
    // 3 ranks
    {{3, 1, 1, 1}, Family::llama},
    {{1, 3, 1, 1}, Family::qwen2},
    {{1, 1, 3, 1}, Family::qwen3},
    // 4 ranks
    {{2, 1, 1, 2}, Family::llama},
    {{1, 2, 2, 1}, Family::qwen2},
    {{1, 1, 4, 1}, Family::llama},
    {{1, 1, 1, 4}, Family::llama},
    {{1, 1, 2, 2}, Family::qwen3},
    {{1, 2, 1, 2}, Family::qwen2, config::Reshard::never},
    {{1, 1, 2, 2}, Family::gemma3},
    {{1, 1, 1, 4}, Family::olmo2},
    // 6 ranks
    {{3, 1, 2, 1}, Family::llama},
    {{1, 1, 1, 6}, Family::qwen2},
    {{1, 2, 3, 1}, Family::qwen3},
    // 8 ranks
    {{2, 2, 2, 1}, Family::qwen3},
    {{1, 2, 2, 2}, Family::qwen2},
    {{2, 1, 1, 4}, Family::qwen3},
    {{1, 1, 8, 1}, Family::llama},
    {{1, 2, 2, 2}, Family::olmo2},
    {{2, 1, 1, 4}, Family::gemma3},
    // 12 ranks
    {{1, 2, 1, 6}, Family::qwen2},
    {{3, 1, 2, 2}, Family::qwen3},
    // 16 ranks
    {{2, 2, 2, 2}, Family::llama},
    {{2, 2, 2, 2}, Family::qwen3, config::Reshard::never},
    {{1, 1, 4, 4}, Family::llama},
    {{1, 16, 1, 1}, Family::qwen2},
    {{4, 1, 1, 4}, Family::qwen3},
};

/// Those of so many ranks.
[[nodiscard]] inline std::vector<MeshCase> meshes_of(int num_ranks) {
  std::vector<MeshCase> cases;
  std::ranges::copy_if(mesh_table, std::back_inserter(cases),
                       [&](const MeshCase& mesh_case) { return mesh_case.layout.size() == num_ranks; });
  return cases;
}

inline constexpr std::array accumulations{1, 3};

/// Rows of the global batch: a multiple of every accumulation times the data ranks, and enough of them to be awkward.
[[nodiscard]] inline std::int64_t rows_per_step(const mesh::Layout& layout) {
  const int rows_dealt = 3 * layout[Axis::dp_replicate] * layout[Axis::dp_shard];
  return (12 + rows_dealt - 1) / rows_dealt * rows_dealt;
}

}  // namespace sft::test
