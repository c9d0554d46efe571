// SPDX-License-Identifier: Apache-2.0
#pragma once
// One rank's shard of a small made-up model, in real memory, for the tests of the optimizer.

#include <algorithm>
#include <memory>
#include <vector>

#include "sft/device/factory.hpp"
#include "sft/ops/factory.hpp"
#include "sft/parallel/unit_storage.hpp"
#include "support/parameter.hpp"

namespace sft::optim::test {

/// Matrices and vectors with every kind of split; no border of a shard meets the end of a parameter.
inline std::vector<parallel::Unit> sample_units() {
  using parallel::TpSplit;
  using sft::test::parameter;
  std::vector<parallel::Unit> units(3);
  units[0].parameters = {parameter("table", 24, 13, TpSplit::rows)};
  units[1].parameters = {parameter("q", 16, 11, TpSplit::rows),       parameter("k", 8, 11, TpSplit::kv_rows),
                         parameter("k_bias", 8, 0, TpSplit::kv_rows), parameter("o", 11, 16, TpSplit::columns),
                         parameter("norm", 11, 0, TpSplit::none),     parameter("k_norm", 3, 0, TpSplit::partial)};
  units[2].parameters = {parameter("final", 71, 0, TpSplit::none)};
  return units;
}

/// The CPU, and one arena in it.
struct Memory {
  /// Calls into(arena) with a sizing arena, then with a real one of that size, which lives as long as this does.
  template <class LayOut>
  void lay_out(const LayOut& into) {
    device::Arena sizing;
    into(sizing);
    arenas.push_back(std::make_unique<device::Arena>(*device, ledger, device::Label::parameters, sizing.used_bytes()));
    into(*arenas.back());
  }

  std::unique_ptr<device::Device> device = device::make_device(device::Kind::cpu);
  std::unique_ptr<device::Stream> stream = device->make_stream();
  std::unique_ptr<ops::Backend> backend = ops::make_checked_backend(ops::make_backend(*device, *stream));
  device::Ledger ledger;
  std::vector<std::unique_ptr<device::Arena>> arenas;
};

/// Calls visit(parameter, row, column, element of the rank shard) for each element that the rank stores.
template <class Visit>
void for_each_element(const parallel::ShardMap& shard_map, const Visit& visit) {
  for (const parallel::Piece& piece : shard_map.pieces()) {
    for (const parallel::LogicalRectangle& r : parallel::ShardMap::rectangles(piece)) {
      for (std::int64_t i = 0; i < r.num_rows; ++i) {
        for (std::int64_t j = 0; j < r.num_columns; ++j) {
          visit(*piece.parameter, r.row_begin + i, r.column_begin + j, r.shard_offset + i * r.num_columns + j);
        }
      }
    }
  }
}

/// Sets every element of a float32 tensor.
inline void fill(const Tensor& x, float value) { std::fill_n(x.as<float>(), x.num_elements(), value); }

}  // namespace sft::optim::test
