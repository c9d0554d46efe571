// SPDX-License-Identifier: Apache-2.0
// Where units are whole: who shares a buffer, how long it is, and that nothing is taken for what is whole in the
// storage.

#include "sft/parallel/unit_buffers.hpp"

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <set>

#include "unit/parallel/sample_units.hpp"

namespace sft::parallel {

namespace {

using Slots = IndexedVector<UnitIndex, SlotIndex>;
using test::all_sharded, test::trained, test::untrained;
const IndexRange<UnitIndex> all_units(test::num_sample_units);

/// Buffers of the sample units over sizing arenas.
struct Buffered {
  Buffered(int fsdp_size, DType compute, ShardingPolicy of, const SlotAssignment& assignment)
      : Buffered(make_parts(test::sample_parts(), test::fsdp_place(fsdp_size, 0), of, compute), of, assignment) {}
  Buffered(IndexedVector<PartIndex, Part> parts_in, ShardingPolicy of, const SlotAssignment& assignment)
      : parts(storage_of(std::move(parts_in))), policy(of), slots(assignment), buffers(parts, policy, slots) {
    device::Arena stored_parameters, stored_gradients;
    for (UnitStorage& storage : parts) storage.lay_out(stored_parameters, stored_parameters, stored_gradients);
    const UnitBuffers::Arenas arenas{parameters, gradients, arena, arena, arena};
    buffers.lay_out(arenas, arenas);
  }

  [[nodiscard]] std::int64_t elements(PartIndex part, UnitIndex u) const {
    return parts[part].shard_map().unit(u).num_elements;
  }
  [[nodiscard]] std::int64_t parameter_elements(UnitIndex u) const {
    return elements(trained, u) + elements(untrained, u);
  }
  [[nodiscard]] std::int64_t gradient_elements(UnitIndex u) const { return elements(trained, u); }

  /// Elements of the longest unit whose slot is `slot`.
  template <class Elements>
  [[nodiscard]] std::int64_t longest(const Slots& slot_of_unit, SlotIndex slot, const Elements& elements) const {
    std::int64_t most = 0;
    for (const UnitIndex u : slot_of_unit.indices()) {
      if (slot_of_unit[u] == slot) most = std::max(most, elements(u));
    }
    return most;
  }

  StoredParts parts;
  ShardingPolicy policy;
  SlotAssignment slots;
  UnitBuffers buffers;
  device::Arena parameters, gradients, arena;  ///< of the buffers
};

SlotAssignment sample_slots(bool reshard, bool tied) {
  return {test::num_sample_units, ShardingPolicy{.reshard = reshard ? config::Reshard::always : config::Reshard::never},
          tied};
}

}  // namespace

BOOST_AUTO_TEST_SUITE(unit_buffers)

BOOST_AUTO_TEST_CASE(blocks_take_turns_and_embedding_and_head_share) {
  const SlotAssignment slots = sample_slots(true, false);
  BOOST_TEST(slots.parameters == slots.gradients, boost::test_tools::per_element());
  BOOST_TEST(slots.num_parameter_slots() == 3);
  const Slots& of = slots.parameters;
  BOOST_TEST(of[0] == of[5]);
  BOOST_TEST(of[1] == of[3]);
  BOOST_TEST(of[2] == of[4]);
  BOOST_TEST((std::set<int>{of[0], of[1], of[2]}.size()) == 3U);
}

BOOST_AUTO_TEST_CASE(a_tied_table_is_used_on_both_ends_and_has_its_own) {
  const SlotAssignment slots = sample_slots(true, true);
  BOOST_TEST(slots.num_parameter_slots() == 4);
  BOOST_TEST(slots.num_gradient_slots() == 4);
  BOOST_TEST(slots.parameters[0] != slots.parameters[5]);
  BOOST_TEST(slots.gradients[0] != slots.gradients[5]);
}

BOOST_AUTO_TEST_CASE(parameters_that_are_kept_have_a_buffer_each) {
  const SlotAssignment slots = sample_slots(false, false);
  BOOST_TEST(slots.num_parameter_slots() == test::num_sample_units);
  BOOST_TEST(std::set<int>(slots.parameters.begin(), slots.parameters.end()).size() == 6U);
  BOOST_TEST(slots.gradients == sample_slots(true, false).gradients, boost::test_tools::per_element());
}

BOOST_AUTO_TEST_CASE(a_buffer_is_as_long_as_its_longest_unit) {
  for (const bool reshard : {true, false}) {
    for (const bool tied : {true, false}) {
      for (const DType compute : {DType::float32, DType::bf16}) {
        const Buffered b(3, compute, all_sharded, sample_slots(reshard, tied));
        std::size_t expected_bytes = 0;
        for (const SlotIndex slot : IndexRange<SlotIndex>(b.slots.num_parameter_slots())) {
          expected_bytes += test::bytes_of(
              b.longest(b.slots.parameters, slot, [&](UnitIndex u) { return b.parameter_elements(u); }), compute);
        }
        for (const SlotIndex slot : IndexRange<SlotIndex>(b.slots.num_gradient_slots())) {
          expected_bytes += test::bytes_of(
              b.longest(b.slots.gradients, slot, [&](UnitIndex u) { return b.gradient_elements(u); }), DType::float32);
        }
        BOOST_TEST(b.arena.used_bytes() == expected_bytes);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(units_overlap_where_they_share_a_buffer_and_nowhere_else) {
  const Buffered b(2, DType::bf16, all_sharded, sample_slots(true, false));
  for (const UnitIndex u : all_units) {
    const Tensor parameters = b.buffers.parameters(trained, u), gradients = b.buffers.gradients(trained, u);
    BOOST_TEST(parameters.num_elements() == b.elements(trained, u));
    BOOST_TEST(gradients.num_elements() == b.elements(trained, u));
    BOOST_TEST((parameters.dtype == DType::bf16));
    BOOST_TEST((gradients.dtype == DType::float32));
    const Tensor other = b.buffers.parameters(untrained, u);
    BOOST_TEST((other.dtype == DType::bf16));
    BOOST_TEST(other.num_elements() == b.elements(untrained, u));
    BOOST_TEST(test::distance_bytes(parameters, other) == static_cast<std::int64_t>(parameters.size_bytes()));
    for (const UnitIndex v : all_units) {
      const auto are_apart = [](const Tensor& x, const Tensor& y) {
        const std::int64_t distance = test::distance_bytes(x, y);
        return distance >= static_cast<std::int64_t>(x.size_bytes()) ||
               -distance >= static_cast<std::int64_t>(y.size_bytes());
      };
      if (b.slots.parameters[u] == b.slots.parameters[v]) {
        BOOST_TEST(parameters.data == b.buffers.parameters(trained, v).data);
        BOOST_TEST(gradients.data == b.buffers.gradients(trained, v).data);
      } else {
        BOOST_TEST(are_apart(parameters, b.buffers.parameters(trained, v)));
        BOOST_TEST(are_apart(gradients, b.buffers.gradients(trained, v)));
        BOOST_TEST(are_apart(other, b.buffers.parameters(untrained, v)));
        BOOST_TEST(are_apart(other, b.buffers.parameters(trained, v)));
      }
      BOOST_TEST(are_apart(parameters, b.buffers.gradients(trained, v)));
    }
  }
}

BOOST_AUTO_TEST_CASE(parts_of_any_number_and_dtype_share_a_slot) {
  auto of_three = test::sample_parts();
  of_three.push_back({test::more_sample_units(), /*has_gradient=*/true});
  auto parts = make_parts(of_three, test::fsdp_place(2, 0), all_sharded, DType::bf16);
  constexpr PartIndex third{2};
  parts[untrained].stored = parts[untrained].gathered = DType::float32;
  const SlotAssignment slots = sample_slots(true, false);
  const Buffered b(std::move(parts), all_sharded, slots);
  IndexedVector<SlotIndex, std::size_t> bytes(slots.num_parameter_slots()), gradient_bytes(slots.num_gradient_slots());
  for (const UnitIndex u : all_units) {
    const Tensor first = b.buffers.parameters(trained, u), second = b.buffers.parameters(untrained, u),
                 last = b.buffers.parameters(third, u);
    BOOST_TEST((second.dtype == DType::float32));
    BOOST_TEST((last.dtype == DType::bf16));
    BOOST_TEST(last.num_elements() == b.elements(third, u));
    BOOST_TEST(test::distance_bytes(first, second) == static_cast<std::int64_t>(first.size_bytes()));
    BOOST_TEST(test::distance_bytes(second, last) == static_cast<std::int64_t>(second.size_bytes()));
    const Tensor gradient = b.buffers.gradients(trained, u), last_gradient = b.buffers.gradients(third, u);
    BOOST_TEST(test::distance_bytes(gradient, last_gradient) == static_cast<std::int64_t>(gradient.size_bytes()));
    std::size_t &most = bytes[slots.parameters[u]], &most_gradients = gradient_bytes[slots.gradients[u]];
    most = std::max(most, first.size_bytes() + second.size_bytes() + last.size_bytes());
    most_gradients = std::max(most_gradients, gradient.size_bytes() + last_gradient.size_bytes());
  }
  std::size_t expected_bytes = 0;
  for (const auto* all : {&bytes, &gradient_bytes}) {
    for (const std::size_t n : *all) expected_bytes += round_up(n, device::Arena::alignment_bytes);
  }
  BOOST_TEST(b.arena.used_bytes() == expected_bytes);
}

BOOST_AUTO_TEST_CASE(what_is_not_sharded_lies_whole_beside_a_sharded_storage) {
  for (const bool sharded_gradients : {false, true}) {
    for (const DType compute : {DType::float32, DType::bf16}) {
      const Buffered b(3, compute, {.gradients = sharded_gradients, .optimizer_state = true},
                       sample_slots(true, false));
      std::size_t parameters_bytes = 0, gradients_bytes = 0;
      for (const UnitIndex u : all_units) {
        parameters_bytes += test::bytes_of(b.gradient_elements(u), compute);
        gradients_bytes += test::bytes_of(b.gradient_elements(u), DType::float32);
        BOOST_TEST(b.buffers.parameters(untrained, u).data == b.parts[untrained].parameters_of(u).data);
        BOOST_TEST(b.buffers.parameters(untrained, u).num_elements() == b.elements(untrained, u));
      }
      BOOST_TEST(b.parameters.used_bytes() == parameters_bytes);
      BOOST_TEST(b.gradients.used_bytes() == (sharded_gradients ? 0U : gradients_bytes));
      BOOST_TEST((b.arena.used_bytes() > 0U) == sharded_gradients);
    }
  }
}

BOOST_AUTO_TEST_CASE(neighbours_keep_parts_of_the_units_that_lose_their_buffers) {
  ShardingPolicy policy = all_sharded;
  policy.reshard = config::Reshard::to_groups;
  policy.reshard_size = 2;
  const Buffered b(4, DType::bf16, policy, sample_slots(true, false));
  const Buffered plain(4, DType::bf16, all_sharded, sample_slots(true, false));
  std::size_t kept_bytes = 0;
  for (const UnitIndex u : all_units) {
    const bool is_kept = u < 3;  // the embedding, the first two of four blocks
    const Tensor kept = b.buffers.kept_parameters(trained, u), other = b.buffers.kept_parameters(untrained, u);
    BOOST_TEST(kept.num_elements() == (is_kept ? b.elements(trained, u) / 2 : 0));
    BOOST_TEST(other.num_elements() == (is_kept ? b.elements(untrained, u) / 2 : 0));
    kept_bytes += test::bytes_of(kept.num_elements(), DType::bf16) + test::bytes_of(other.num_elements(), DType::bf16);
    BOOST_TEST(plain.buffers.kept_parameters(trained, u).empty());
  }
  BOOST_TEST(b.arena.used_bytes() == plain.arena.used_bytes() + kept_bytes);
}

BOOST_AUTO_TEST_CASE(nothing_is_taken_where_nothing_is_sharded) {
  for (const DType compute : {DType::float32, DType::bf16}) {
    const Buffered b(1, compute, {}, sample_slots(true, false));
    BOOST_TEST(b.arena.used_bytes() == 0U);
    for (const UnitIndex u : all_units) {
      BOOST_TEST(b.buffers.parameters(trained, u).data == b.parts[trained].parameters_of(u).data);
      BOOST_TEST(b.buffers.parameters(untrained, u).data == b.parts[untrained].parameters_of(u).data);
      BOOST_TEST(b.buffers.gradients(trained, u).data == b.parts[trained].gradients_of(u).data);
      BOOST_TEST((b.buffers.parameters(trained, u).dtype == compute));
      BOOST_TEST(b.buffers.parameters(trained, u).num_elements() == b.elements(trained, u));
      BOOST_TEST(b.buffers.gradients(trained, u).num_elements() == b.elements(trained, u));
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::parallel
