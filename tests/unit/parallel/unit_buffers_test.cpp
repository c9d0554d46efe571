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

/// Buffers of the sample units over sizing arenas.
struct Buffered {
  Buffered(int fsdp_size, DType compute, ShardingPolicy of, const SlotAssignment& assignment)
      : shard_map(test::sample_units(), test::fsdp_place(fsdp_size, 0)),
        frozen_map(test::frozen_sample_units(), test::fsdp_place(fsdp_size, 0), of.frozen_axes()),
        storage(shard_map, frozen_map, compute),
        policy(of),
        slots(assignment),
        buffers(storage, policy, slots) {
    device::Arena stored_parameters, stored_gradients;
    storage.lay_out(stored_parameters, stored_parameters, stored_gradients);
    buffers.lay_out({parameters, gradients, arena, arena, arena});
  }

  [[nodiscard]] std::int64_t parameter_elements(int u) const {
    return shard_map.unit(u).num_elements + frozen_map.unit(u).num_elements;
  }
  [[nodiscard]] std::int64_t gradient_elements(int u) const { return shard_map.unit(u).num_elements; }

  /// Elements of the longest unit whose slot is `slot`.
  template <class Elements>
  [[nodiscard]] std::int64_t longest(const Slots& slot_of_unit, SlotIndex slot, const Elements& elements) const {
    std::int64_t most = 0;
    for (int u = 0; u < shard_map.num_units(); ++u) {
      if (slot_of_unit[u] == slot) most = std::max(most, elements(u));
    }
    return most;
  }

  ShardMap shard_map, frozen_map;
  UnitStorage storage;
  ShardingPolicy policy;
  SlotAssignment slots;
  UnitBuffers buffers;
  device::Arena parameters, gradients, arena;  ///< of the buffers
};

constexpr ShardingPolicy all_sharded{.parameters = true, .gradients = true, .optimizer_state = true};

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
        for (int slot = 0; slot < b.slots.num_parameter_slots(); ++slot) {
          expected_bytes += test::bytes_of(
              b.longest(b.slots.parameters, slot, [&](int u) { return b.parameter_elements(u); }), compute);
        }
        for (int slot = 0; slot < b.slots.num_gradient_slots(); ++slot) {
          expected_bytes += test::bytes_of(
              b.longest(b.slots.gradients, slot, [&](int u) { return b.gradient_elements(u); }), DType::float32);
        }
        BOOST_TEST(b.arena.used_bytes() == expected_bytes);
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(units_overlap_where_they_share_a_buffer_and_nowhere_else) {
  const Buffered b(2, DType::bf16, all_sharded, sample_slots(true, false));
  for (int u = 0; u < test::num_sample_units; ++u) {
    const Tensor parameters = b.buffers.parameters(u), gradients = b.buffers.gradients(u);
    BOOST_TEST(parameters.num_elements() == b.shard_map.unit(u).num_elements);
    BOOST_TEST(gradients.num_elements() == b.shard_map.unit(u).num_elements);
    BOOST_TEST((parameters.dtype == DType::bf16));
    BOOST_TEST((gradients.dtype == DType::float32));
    const Tensor frozen = b.buffers.frozen_parameters(u);
    BOOST_TEST((frozen.dtype == DType::bf16));
    BOOST_TEST(frozen.num_elements() == b.frozen_map.unit(u).num_elements);
    BOOST_TEST(test::distance_bytes(parameters, frozen) == static_cast<std::int64_t>(parameters.size_bytes()));
    for (int v = 0; v < test::num_sample_units; ++v) {
      const auto are_apart = [](const Tensor& x, const Tensor& y) {
        const std::int64_t distance = test::distance_bytes(x, y);
        return distance >= static_cast<std::int64_t>(x.size_bytes()) ||
               -distance >= static_cast<std::int64_t>(y.size_bytes());
      };
      if (b.slots.parameters[u] == b.slots.parameters[v]) {
        BOOST_TEST(parameters.data == b.buffers.parameters(v).data);
        BOOST_TEST(gradients.data == b.buffers.gradients(v).data);
      } else {
        BOOST_TEST(are_apart(parameters, b.buffers.parameters(v)));
        BOOST_TEST(are_apart(gradients, b.buffers.gradients(v)));
        BOOST_TEST(are_apart(frozen, b.buffers.frozen_parameters(v)));
        BOOST_TEST(are_apart(frozen, b.buffers.parameters(v)));
      }
      BOOST_TEST(are_apart(parameters, b.buffers.gradients(v)));
    }
  }
}

BOOST_AUTO_TEST_CASE(what_is_not_sharded_lies_whole_beside_a_sharded_storage) {
  for (const bool sharded_gradients : {false, true}) {
    for (const DType compute : {DType::float32, DType::bf16}) {
      const Buffered b(3, compute, {.gradients = sharded_gradients, .optimizer_state = true},
                       sample_slots(true, false));
      std::size_t parameters_bytes = 0, gradients_bytes = 0;
      for (int u = 0; u < test::num_sample_units; ++u) {
        parameters_bytes += test::bytes_of(b.gradient_elements(u), compute);
        gradients_bytes += test::bytes_of(b.gradient_elements(u), DType::float32);
        BOOST_TEST(b.buffers.frozen_parameters(u).data == b.storage.frozen_parameters_of(u).data);
        BOOST_TEST(b.buffers.frozen_parameters(u).num_elements() == b.frozen_map.unit(u).num_elements);
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
  for (int u = 0; u < test::num_sample_units; ++u) {
    const bool is_kept = u < 3;  // the embedding, the first two of four blocks
    const Tensor kept = b.buffers.kept_parameters(u), frozen = b.buffers.kept_frozen_parameters(u);
    BOOST_TEST(kept.num_elements() == (is_kept ? b.shard_map.unit(u).num_elements / 2 : 0));
    BOOST_TEST(frozen.num_elements() == (is_kept ? b.frozen_map.unit(u).num_elements / 2 : 0));
    kept_bytes += test::bytes_of(kept.num_elements(), DType::bf16) + test::bytes_of(frozen.num_elements(), DType::bf16);
    BOOST_TEST(plain.buffers.kept_parameters(u).empty());
  }
  BOOST_TEST(b.arena.used_bytes() == plain.arena.used_bytes() + kept_bytes);
}

BOOST_AUTO_TEST_CASE(nothing_is_taken_where_nothing_is_sharded) {
  for (const DType compute : {DType::float32, DType::bf16}) {
    const Buffered b(1, compute, {}, sample_slots(true, false));
    BOOST_TEST(b.arena.used_bytes() == 0U);
    for (int u = 0; u < test::num_sample_units; ++u) {
      BOOST_TEST(b.buffers.parameters(u).data == b.storage.parameters_of(u).data);
      BOOST_TEST(b.buffers.frozen_parameters(u).data == b.storage.frozen_parameters_of(u).data);
      BOOST_TEST(b.buffers.gradients(u).data == b.storage.gradients_of(u).data);
      BOOST_TEST((b.buffers.parameters(u).dtype == compute));
      BOOST_TEST(b.buffers.parameters(u).num_elements() == b.shard_map.unit(u).num_elements);
      BOOST_TEST(b.buffers.gradients(u).num_elements() == b.shard_map.unit(u).num_elements);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::parallel
