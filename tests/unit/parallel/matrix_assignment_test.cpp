// SPDX-License-Identifier: Apache-2.0
// Every matrix has one rank, every round one matrix for a rank at most, and memory is that of the largest round.

#include "sft/parallel/matrix_assignment.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>
#include <utility>

#include "unit/parallel/sample_units.hpp"

namespace sft::parallel {

namespace {

bool is_assigned(UnitIndex unit, const Parameter& parameter) { return unit != 2 && !parameter.is_vector(); }

/// The sample units, whose matrices are cut by rows where tp divides them.
std::vector<Unit> units_for(int tp_size) {
  std::vector<Unit> units = test::sample_units();
  for (Unit& unit : units) {
    Parameter& matrix = unit.parameters[0];
    if (matrix.rows % tp_size == 0) matrix.split = TpSplit::rows;
  }
  return units;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(matrix_assignment)

BOOST_AUTO_TEST_CASE(each_matrix_goes_to_one_rank_the_largest_first) {
  for (const mesh::Layout& layout :
       {mesh::Layout{}, mesh::Layout{{Axis::dp_shard, 2}}, mesh::Layout{{Axis::tp, 2}},
        mesh::Layout{{Axis::dp_shard, 2}, {Axis::tp, 2}}, mesh::Layout{{Axis::dp_shard, 4}, {Axis::sp, 2}}}) {
    const int fsdp_size = layout[Axis::dp_shard] * layout[Axis::sp], round_size = fsdp_size * layout[Axis::tp];
    for (const WorldRank rank : layout.ranks()) {
      const mesh::Place place(layout, rank);
      const ShardMap shard_map(units_for(layout[Axis::tp]), place);
      const MatrixAssignment assignment(shard_map, place, is_assigned);
      std::set<const Parameter*> assigned;
      std::int64_t last = shard_map.num_parameters();
      for (const auto& round : assignment.rounds()) {
        BOOST_TEST((std::ssize(round) == round_size || &round == &assignment.rounds().back()));
        std::set<std::pair<int, int>> ranks;
        for (const AssignedMatrix& matrix : round) {
          BOOST_TEST(is_assigned(matrix.unit, *matrix.parameter));
          BOOST_TEST(assigned.insert(matrix.parameter).second);
          BOOST_TEST(ranks.insert({matrix.fsdp_rank, matrix.tp_rank}).second);
          BOOST_TEST(matrix.fsdp_rank < fsdp_size);
          BOOST_TEST(matrix.tp_rank < layout[Axis::tp]);
          BOOST_TEST(matrix.num_slices() == (matrix.parameter->split == TpSplit::rows ? layout[Axis::tp] : 1));
          BOOST_TEST(matrix.parameter->elements() <= last);
          last = matrix.parameter->elements();
        }
      }
      BOOST_TEST(assigned.size() == 5U);
    }
  }
}

BOOST_AUTO_TEST_CASE(memory_is_for_what_comes_together) {
  const auto bytes_on = [](const mesh::Layout& layout) {
    const mesh::Place place(layout, 0);
    const ShardMap shard_map(units_for(layout[Axis::tp]), place);
    MatrixAssignment assignment(shard_map, place, is_assigned);
    device::Arena sizing;
    assignment.lay_out(sizing);
    return sizing.used_bytes();
  };
  constexpr std::int64_t largest = (31 + 7 * 5) * 19, second = (31 + 7 * 4) * 19;
  BOOST_TEST(bytes_on({}) == 0U);
  BOOST_TEST(bytes_on({{Axis::dp_shard, 3}}) == test::bytes_of(round_up(largest, alignment_elements), DType::float32));
  BOOST_TEST(bytes_on({{Axis::tp, 2}}) == test::bytes_of(largest, DType::float32));
  // The larger one is cut over tp, the other is not.
  BOOST_TEST(
      bytes_on({{Axis::dp_shard, 3}, {Axis::tp, 2}}) ==
      test::bytes_of(round_up(largest / 2, alignment_elements) + round_up(second, alignment_elements), DType::float32) +
          test::bytes_of(largest, DType::float32));
}

BOOST_AUTO_TEST_CASE(without_such_matrices_there_is_nothing_to_do) {
  const mesh::Place place = test::fsdp_place(2, 1);
  const ShardMap shard_map(test::sample_units(), place);
  MatrixAssignment assignment(shard_map, place, [](int, const Parameter&) { return false; });
  device::Arena sizing;
  assignment.lay_out(sizing);
  BOOST_TEST(assignment.rounds().empty());
  BOOST_TEST(sizing.used_bytes() == 0U);
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::parallel
