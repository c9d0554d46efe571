// SPDX-License-Identifier: Apache-2.0
// Every matrix is whole on one rank, and what that leaves comes back to all that hold a part of it.

#include "sft/parallel/matrix_exchange.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "sft/device/factory.hpp"
#include "sft/ops/factory.hpp"
#include "support/mesh.hpp"
#include "support/mpi_session.hpp"
#include "support/parameter.hpp"
#include "support/stored_part.hpp"

namespace sft::parallel {

namespace {

using test::parameter;
using test::session;

const std::vector<test::Layout> layouts{{1, 1, 1, 1}, {1, 2, 1, 1}, {1, 1, 1, 2}, {1, 4, 1, 1}, {1, 2, 1, 2},
                                        {1, 1, 2, 2}, {1, 1, 1, 4}, {2, 1, 1, 2}, {2, 2, 1, 2}, {1, 2, 1, 4}};

/// Matrices with every split of a block, and vectors between them.
std::vector<Unit> sample_units() {
  std::vector<Unit> units(3);
  for (Unit& unit : units) {
    unit.parameters = {parameter("q", 16, 11, TpSplit::rows),       parameter("k", 8, 11, TpSplit::kv_rows),
                       parameter("k_bias", 8, 0, TpSplit::kv_rows), parameter("o", 11, 16, TpSplit::columns),
                       parameter("norm", 11, 0, TpSplit::none),     parameter("a", 3, 11, TpSplit::partial),
                       parameter("b", 16, 3, TpSplit::rows),        parameter("c", 5, 11, TpSplit::none)};
  }
  return units;
}

/// Of an element of a logical tensor.
float value_of(UnitIndex unit, const Parameter& parameter, std::int64_t row, std::int64_t column) {
  return static_cast<float>(10000 * unit + 100 * (parameter.name[0] - 'a') + 20 * row + column);
}
float answer_to(float value) { return 1.0F - 2.0F * value; }

bool is_assigned(UnitIndex unit, const Parameter& parameter) { return unit != 1 && !parameter.is_vector(); }

/// Calls visit(unit, parameter, row, column, element of the rank shard).
template <class Visit>
void for_each_element(const ShardMap& shard_map, const Visit& visit) {
  for (const Piece& piece : shard_map.pieces()) {
    UnitIndex unit;
    for (const UnitIndex later : shard_map.unit_indices()) {
      if (shard_map.unit(later).shard_offset <= piece.shard_offset) unit = later;
    }
    for (const LogicalRectangle& r : ShardMap::rectangles(piece)) {
      for (std::int64_t i = 0; i < r.num_rows; ++i) {
        for (std::int64_t j = 0; j < r.num_columns; ++j) {
          visit(unit, *piece.parameter, r.row_begin + i, r.column_begin + j, r.shard_offset + i * r.num_columns + j);
        }
      }
    }
  }
}

/// Collective over the mesh.
void exchange_on(const test::Mesh& mesh, bool is_sharded) {
  const std::unique_ptr<device::Device> device = device::make_device(device::Kind::cpu);
  const std::unique_ptr<device::Stream> stream = device->make_stream();
  const std::unique_ptr<ops::Backend> backend = ops::make_checked_backend(ops::make_backend(*device, *stream));
  const auto collectives = comm::make_collectives(*device, mesh.groups.of_tensors({.exchanges_matrices = true}));
  UnitStorage storage =
      test::stored_part(sample_units(), mesh.place, DType::float32, MasterWeights::in_memory, is_sharded);
  const ShardMap& shard_map = storage.shard_map();
  MatrixAssignment assignment(shard_map, mesh.place, is_assigned);
  device::Ledger ledger;
  const auto lay_out = [&](device::Arena& arena) {
    storage.lay_out(arena, arena, arena);
    assignment.lay_out(arena);
  };
  device::Arena sizing;
  lay_out(sizing);
  device::Arena arena(*device, ledger, device::Label::gradients, sizing.used_bytes());
  lay_out(arena);
  auto* gradients = storage.gradients().as<float>();
  for_each_element(shard_map, [&](UnitIndex unit, const Parameter& p, std::int64_t i, std::int64_t j, std::int64_t at) {
    gradients[at] = value_of(unit, p, i, j);
  });

  std::int64_t num_worked = 0, num_wrong = 0;
  MatrixExchange exchange(assignment, storage, mesh.groups, *backend, *collectives);
  exchange.for_each([&](const WholeMatrix& matrix) {
    stream->synchronize();
    ++num_worked;
    const Parameter& p = *matrix.parameter;
    // The slices make up the whole matrix of one of the units.
    std::vector<float> whole(static_cast<std::size_t>(p.elements()), -1.0F);
    const Tensor target(whole.data(), DType::float32, {p.rows, p.columns});
    for (int i = 0; i < matrix.num_slices; ++i) backend->run(ops::Copy{matrix.part_of(target, i), matrix.slice(i)});
    const UnitIndex of_unit = whole[0] < 15000.0F ? UnitIndex(0) : UnitIndex(2);
    for (std::int64_t i = 0; i < p.elements(); ++i) {
      num_wrong += target.as<float>()[i] == value_of(of_unit, p, i / p.columns, i % p.columns) ? 0 : 1;
      target.as<float>()[i] = answer_to(target.as<float>()[i]);
    }
    for (int i = 0; i < matrix.num_slices; ++i) backend->run(ops::Copy{matrix.slice(i), matrix.part_of(target, i)});
  });
  stream->synchronize();
  BOOST_TEST(num_wrong == 0);

  std::int64_t num_assigned = 0;
  for (const auto& round : assignment.rounds()) num_assigned += std::ssize(round);
  BOOST_TEST(num_assigned == 12);
  std::vector<std::int64_t> sums{num_worked};
  mesh.groups.fsdp.sum(std::span<std::int64_t>(sums));
  mesh.groups.tp.sum(std::span<std::int64_t>(sums));
  BOOST_TEST(sums[0] == num_assigned);
  BOOST_TEST(num_worked <= std::ssize(assignment.rounds()));

  for_each_element(shard_map, [&](UnitIndex unit, const Parameter& p, std::int64_t i, std::int64_t j, std::int64_t at) {
    const float before = value_of(unit, p, i, j), expected = is_assigned(unit, p) ? answer_to(before) : before;
    BOOST_TEST_REQUIRE(gradients[at] == expected, p.name << " of unit " << unit << " at " << i << ", " << j);
  });
}

}  // namespace

BOOST_AUTO_TEST_SUITE(matrix_exchange)

BOOST_AUTO_TEST_CASE(a_matrix_is_whole_on_one_rank_and_comes_back_to_all) {
  for (const mesh::Layout& layout : layouts) {
    if (layout.size() != session().world().size()) continue;
    for (const bool is_sharded : {true, false}) {
      BOOST_TEST_CONTEXT(layout.describe() << (is_sharded ? "" : ", not sharded")) {
        const mesh::Sharing sharing{.shard_axes = is_sharded ? fsdp_axes : AxisSet{},
                                    .kv_replicas = std::max(1, layout[Axis::tp] / 2)};
        exchange_on(test::Mesh(session().world(), layout, sharing), is_sharded);
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::parallel
