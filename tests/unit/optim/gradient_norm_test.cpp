// SPDX-License-Identifier: Apache-2.0
// The sum over the ranks of a mesh is the norm of the whole model: what several ranks hold counts once.

#include "sft/optim/gradient_norm.hpp"

#include <boost/test/unit_test.hpp>
#include <cmath>
#include <limits>

#include "support/stored_part.hpp"
#include "unit/optim/shard_fixture.hpp"

namespace sft::optim {

namespace {

/// The gradient of an element of the whole model: a small integer, so that sums of squares are exact.
float gradient_of(const parallel::Parameter& p, std::int64_t row, std::int64_t column) {
  return static_cast<float>((7 * row + 3 * column + static_cast<std::int64_t>(p.name.size())) % 11 - 4);
}

/// Of the model, without any mesh.
double whole_sum_of_squares() {
  double sum = 0.0;
  for (const parallel::Unit& unit : test::sample_units()) {
    for (const parallel::Parameter& p : unit.parameters) {
      for (std::int64_t i = 0; i < p.rows; ++i) {
        for (std::int64_t j = 0; j < (p.is_vector() ? 1 : p.columns); ++j) sum += std::pow(gradient_of(p, i, j), 2);
      }
    }
  }
  return sum;
}

/// What rank `rank` adds. Its padding is NaN: it must not count.
double part_of(test::Memory& memory, const mesh::Place& place) {
  parallel::UnitStorage storage = sft::test::stored_part(test::sample_units(), place);
  const parallel::ShardMap& shard_map = storage.shard_map();
  memory.lay_out([&](device::Arena& arena) { storage.lay_out(arena, arena, arena); });
  test::fill(storage.gradients(), std::numeric_limits<float>::quiet_NaN());
  test::for_each_element(shard_map,
                         [&](const parallel::Parameter& p, std::int64_t row, std::int64_t column, std::int64_t at) {
                           storage.gradients().as<float>()[at] = gradient_of(p, row, column);
                         });
  double sum = 0.0;
  GradientNorm(shard_map).sum_squares(storage, *memory.backend, Tensor(&sum, DType::float64, {1}));
  return sum;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(gradient_norm)

BOOST_AUTO_TEST_CASE(the_sum_over_any_mesh_is_that_of_the_model) {
  for (const mesh::Layout& layout :
       {mesh::Layout{}, mesh::Layout{{Axis::dp_replicate, 3}}, mesh::Layout{{Axis::dp_shard, 5}},
        mesh::Layout{{Axis::sp, 2}}, mesh::Layout{{Axis::tp, 2}}, mesh::Layout{{Axis::tp, 8}},
        mesh::Layout{{Axis::dp_replicate, 2}, {Axis::dp_shard, 3}, {Axis::sp, 2}, {Axis::tp, 4}}}) {
    test::Memory memory;
    double sum = 0.0;
    for (const WorldRank rank : layout.ranks()) sum += part_of(memory, {layout, rank});
    BOOST_TEST(sum == whole_sum_of_squares(), layout.describe() << ": " << sum);
  }
}

BOOST_AUTO_TEST_CASE(units_add_up_to_all_of_them) {
  for (const mesh::Layout& layout : {mesh::Layout{}, mesh::Layout{{Axis::dp_shard, 3}, {Axis::tp, 2}}}) {
    double sum = 0.0;
    for (const WorldRank rank : layout.ranks()) {
      test::Memory memory;
      parallel::UnitStorage storage = sft::test::stored_part(test::sample_units(), {layout, rank});
      const parallel::ShardMap& shard_map = storage.shard_map();
      memory.lay_out([&](device::Arena& arena) { storage.lay_out(arena, arena, arena); });
      test::fill(storage.gradients(), std::numeric_limits<float>::quiet_NaN());
      test::for_each_element(shard_map,
                             [&](const parallel::Parameter& p, std::int64_t row, std::int64_t column, std::int64_t at) {
                               storage.gradients().as<float>()[at] = gradient_of(p, row, column);
                             });
      const GradientNorm norm(shard_map);
      for (const parallel::UnitIndex unit : shard_map.unit_indices()) {
        norm.sum_squares_of(unit, storage, *memory.backend, Tensor(&sum, DType::float64, {1}));
      }
    }
    BOOST_TEST(sum == whole_sum_of_squares(), layout.describe() << ": " << sum);
  }
}

BOOST_AUTO_TEST_CASE(squares_are_added_to_what_is_there) {
  test::Memory memory;
  parallel::UnitStorage storage = sft::test::stored_part(test::sample_units(), mesh::Place());
  const parallel::ShardMap& shard_map = storage.shard_map();
  memory.lay_out([&](device::Arena& arena) { storage.lay_out(arena, arena, arena); });
  test::fill(storage.gradients(), 2.0F);
  double sum = 1000.0;
  GradientNorm(shard_map).sum_squares(storage, *memory.backend, Tensor(&sum, DType::float64, {1}));
  BOOST_TEST(sum == 1000.0 + 4.0 * static_cast<double>(shard_map.num_parameters()));
}

BOOST_AUTO_TEST_CASE(clipping_is_that_of_torch) {
  BOOST_TEST(clipping_factor(0.5, 1.0) == 1.0);
  BOOST_TEST(clipping_factor(4.0, 1.0) == 1.0 / (4.0 + 1e-6));
  BOOST_TEST(clipping_factor(1.0, 1.0) == 1.0 / (1.0 + 1e-6));
  BOOST_TEST(clipping_factor(1e9, 0.0) == 1.0);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::optim
