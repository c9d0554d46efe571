// SPDX-License-Identifier: Apache-2.0
// What a rank stores: how much of it there is, and where each unit's part lies.

#include "sft/parallel/unit_storage.hpp"

#include <boost/test/unit_test.hpp>

#include "sft/parallel/sharding_policy.hpp"
#include "unit/parallel/sample_units.hpp"

namespace sft::parallel {

namespace {

struct Stored {
  Stored(int fsdp_size, DType compute, MasterWeights master = MasterWeights::in_memory)
      : parts(storage_of(make_parts(test::sample_parts(), test::fsdp_place(fsdp_size, fsdp_size - 1), test::all_sharded,
                                    compute, master))) {
    for (UnitStorage& stored : parts) stored.lay_out(masters, parameters, gradients);
  }

  StoredParts parts;
  UnitStorage &storage = parts[test::trained], &other = parts[test::untrained];
  device::Arena masters, parameters, gradients;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(unit_storage)

BOOST_AUTO_TEST_CASE(float32_is_stored_once) {
  for (const int fsdp_size : {1, 3, 8}) {
    const Stored s(fsdp_size, DType::float32);
    const std::int64_t n = s.storage.shard_map().rank_shard_elements();
    const std::int64_t num_others = s.other.shard_map().rank_shard_elements();
    BOOST_TEST(s.masters.used_bytes() == 0U);
    BOOST_TEST(s.parameters.used_bytes() ==
               test::bytes_of(n, DType::float32) + test::bytes_of(num_others, DType::float32));
    BOOST_TEST(s.other.parameters().num_elements() == num_others);
    BOOST_TEST(s.other.gradients().empty());
    BOOST_TEST(s.gradients.used_bytes() == test::bytes_of(n, DType::float32));
    BOOST_TEST(s.storage.parameters().num_elements() == n);
    BOOST_TEST(s.storage.gradients().num_elements() == n);
    BOOST_TEST(s.storage.compute_copy().empty());
  }
}

BOOST_AUTO_TEST_CASE(bf16_has_a_copy_beside_the_parameters) {
  for (const int fsdp_size : {1, 3, 8}) {
    const Stored s(fsdp_size, DType::bf16);
    const std::int64_t n = s.storage.shard_map().rank_shard_elements();
    const std::int64_t num_others = s.other.shard_map().rank_shard_elements();
    BOOST_TEST(s.masters.used_bytes() == test::bytes_of(n, DType::float32));
    BOOST_TEST(s.parameters.used_bytes() == test::bytes_of(n, DType::bf16) + test::bytes_of(num_others, DType::bf16));
    BOOST_TEST((s.other.parameters().dtype == DType::bf16));
    BOOST_TEST(s.other.compute_copy().empty());
    BOOST_TEST(s.gradients.used_bytes() == test::bytes_of(n, DType::float32));
    BOOST_TEST((s.storage.parameters().dtype == DType::float32));
    BOOST_TEST((s.storage.gradients().dtype == DType::float32));
    BOOST_TEST((s.storage.compute_copy().dtype == DType::bf16));
    BOOST_TEST(s.storage.compute_copy().num_elements() == n);
  }
}

BOOST_AUTO_TEST_CASE(the_optimizer_may_keep_master_weights_in_a_file_or_have_none) {
  const Stored in_file(3, DType::bf16, MasterWeights::in_file);
  BOOST_TEST(in_file.storage.part().is_in_file);
  BOOST_TEST(in_file.storage.parameters().empty());
  BOOST_TEST((in_file.storage.compute_copy().dtype == DType::bf16));
  const Stored none(3, DType::bf16, MasterWeights::none);
  BOOST_TEST((none.storage.parameters().dtype == DType::bf16));
  BOOST_TEST(none.storage.compute_copy().empty());
  for (const Stored* s : {&in_file, &none}) {
    BOOST_TEST(s->masters.used_bytes() == 0U);
    BOOST_TEST(s->parameters.used_bytes() ==
               test::bytes_of(s->storage.shard_map().rank_shard_elements(), DType::bf16) +
                   test::bytes_of(s->other.shard_map().rank_shard_elements(), DType::bf16));
    BOOST_TEST(!s->other.part().is_in_file);
    BOOST_TEST(!s->other.parameters().empty());
  }
}

BOOST_AUTO_TEST_CASE(shards_of_units_fill_the_rank_shard_in_order) {
  for (const DType compute : {DType::float32, DType::bf16}) {
    const Stored s(3, compute);
    const Tensor sent = compute == DType::float32 ? s.storage.parameters() : s.storage.compute_copy();
    std::int64_t elements = 0;
    for (const UnitIndex u : s.storage.shard_map().unit_indices()) {
      const Tensor parameters = s.storage.parameters_of(u), gradients = s.storage.gradients_of(u);
      BOOST_TEST((parameters.dtype == compute));
      BOOST_TEST((gradients.dtype == DType::float32));
      BOOST_TEST(parameters.num_elements() == s.storage.shard_map().unit(u).num_elements / 3);
      BOOST_TEST(gradients.num_elements() == parameters.num_elements());
      const auto before = static_cast<std::size_t>(elements);
      BOOST_TEST(test::distance_bytes(sent, parameters) == static_cast<std::int64_t>(before * size_of(compute)));
      BOOST_TEST(test::distance_bytes(s.storage.gradients(), gradients) ==
                 static_cast<std::int64_t>(before * sizeof(float)));
      elements += parameters.num_elements();
    }
    BOOST_TEST(elements == s.storage.shard_map().rank_shard_elements());
  }
}

BOOST_AUTO_TEST_CASE(gradients_of_units_in_a_slot_share_memory) {
  StoredParts parts = storage_of(make_parts(test::sample_parts(), test::fsdp_place(3, 2), test::all_sharded,
                                            DType::bf16, MasterWeights::in_memory));
  UnitStorage& storage = parts[test::trained];
  const ShardMap& shard_map = storage.shard_map();
  IndexedVector<UnitIndex, SlotIndex> slots;
  std::int64_t longest[2] = {};
  for (const UnitIndex u : shard_map.unit_indices()) {
    slots.push_back(SlotIndex::from(u % 2));
    longest[u % 2] = std::max(longest[u % 2], shard_map.unit(u).shard_elements);
  }
  device::Arena masters, parameters, gradients;
  storage.lay_out(masters, parameters, gradients, &slots);
  BOOST_TEST(storage.shares_gradients());
  BOOST_TEST(gradients.used_bytes() ==
             test::bytes_of(longest[0], DType::float32) + test::bytes_of(longest[1], DType::float32));
  BOOST_CHECK_THROW(static_cast<void>(storage.gradients()), std::logic_error);
  for (const UnitIndex u : shard_map.unit_indices()) {
    const Tensor sums = storage.gradients_of(u);
    BOOST_TEST(sums.num_elements() == shard_map.unit(u).shard_elements);
    BOOST_TEST(sums.data == storage.gradients_of(UnitIndex::from(u % 2)).data);
    if (sums.num_elements() < 3) continue;
    const Tensor piece = storage.gradients_at(shard_map.unit(u).shard_offset + 2, 1);
    BOOST_TEST(piece.data == sums.rows(2, 1).data);
  }
}

BOOST_AUTO_TEST_CASE(every_part_has_a_rank_shard_of_its_own) {
  for (const DType compute : {DType::float32, DType::bf16}) {
    const Stored s(3, compute);
    std::int64_t elements = 0;
    for (const UnitIndex u : s.other.shard_map().unit_indices()) {
      const Tensor shard = s.other.parameters_of(u);
      BOOST_TEST((shard.dtype == compute));
      BOOST_TEST(shard.num_elements() == s.other.shard_map().unit(u).num_elements / 3);
      BOOST_TEST((shard.num_elements() == 0) == (u % 3 == 2));
      const auto before = static_cast<std::size_t>(elements);
      BOOST_TEST(test::distance_bytes(s.other.parameters(), shard) ==
                 static_cast<std::int64_t>(before * size_of(compute)));
      elements += shard.num_elements();
    }
    BOOST_TEST(elements == s.other.shard_map().rank_shard_elements());
  }
}

BOOST_AUTO_TEST_CASE(matrices_in_four_bits_are_records_of_blocks_and_all_nested_scales) {
  for (const bool is_nested : {false, true}) {
    const FourBitForm form{.is_nested = is_nested};
    std::vector<Unit> units(2);
    const auto add = [](Unit& unit, std::int64_t rows, std::int64_t columns) {
      Parameter& matrix = unit.parameters.emplace_back();
      matrix.name = "matrix";
      matrix.rows = rows;
      matrix.columns = columns;
    };
    for (Unit& unit : units) add(unit, 300, 128);
    add(units[1], 7, 64);
    units[1].parameters.back().joins_previous = true;
    IndexedVector<PartIndex, PartUnits> model;
    model.push_back({.units = units, .has_gradient = false, .four_bits = form});
    StoredParts parts = storage_of(make_parts(model, test::fsdp_place(4, 1), test::all_sharded, DType::bf16));
    UnitStorage& stored = parts.front();
    device::Arena nothing, parameters, scales;
    stored.lay_out(nothing, parameters, nothing);
    stored.lay_out_nested_scales(scales);
    const std::int64_t blocks = stored.shard_map().rank_shard_elements() / 64, first = 300 * 128 / 64 / 4;
    BOOST_TEST(nothing.used_bytes() == 0U);
    BOOST_TEST((stored.parameters().dtype == DType::uint8));
    BOOST_TEST(stored.parameters().num_elements() == blocks * (is_nested ? 33 : 36));
    BOOST_TEST(stored.parameters_of(UnitIndex::from(0)).num_elements() == first * form.record_bytes());
    BOOST_TEST(test::distance_bytes(stored.parameters(), stored.parameters_of(UnitIndex::from(1))) ==
               first * form.record_bytes());
    BOOST_TEST(stored.nested_scales(UnitIndex::from(1), 0).num_elements() == (is_nested ? 1 + 3 : 0));
    BOOST_TEST(stored.nested_scales(UnitIndex::from(1), 1).num_elements() == (is_nested ? 1 + 1 : 0));
    BOOST_TEST(scales.used_bytes() == (is_nested ? test::bytes_of(4 + 4 + 2, DType::float32) : 0U));
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::parallel
