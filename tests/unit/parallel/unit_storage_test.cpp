// SPDX-License-Identifier: Apache-2.0
// What a rank stores: how much of it there is, and where each unit's part lies.

#include "sft/parallel/unit_storage.hpp"

#include <boost/test/unit_test.hpp>

#include "unit/parallel/sample_units.hpp"

namespace sft::parallel {

namespace {

struct Stored {
  Stored(int fsdp_size, DType compute)
      : shard_map(test::sample_units(), test::fsdp_place(fsdp_size, fsdp_size - 1)),
        frozen_map(test::frozen_sample_units(), test::fsdp_place(fsdp_size, fsdp_size - 1)),
        storage(shard_map, frozen_map, compute) {
    storage.lay_out(parameters, parameters, gradients);
  }

  ShardMap shard_map, frozen_map;
  UnitStorage storage;
  device::Arena parameters, gradients;
};

}  // namespace

BOOST_AUTO_TEST_SUITE(unit_storage)

BOOST_AUTO_TEST_CASE(float32_is_stored_once) {
  for (const int fsdp_size : {1, 3, 8}) {
    const Stored s(fsdp_size, DType::float32);
    const std::int64_t n = s.shard_map.rank_shard_elements();
    const std::int64_t num_frozen = s.frozen_map.rank_shard_elements();
    BOOST_TEST(s.parameters.used_bytes() ==
               test::bytes_of(n, DType::float32) + test::bytes_of(num_frozen, DType::float32));
    BOOST_TEST(s.storage.frozen_parameters().num_elements() == num_frozen);
    BOOST_TEST(s.gradients.used_bytes() == test::bytes_of(n, DType::float32));
    BOOST_TEST(s.storage.parameters().num_elements() == n);
    BOOST_TEST(s.storage.gradients().num_elements() == n);
    BOOST_TEST(s.storage.compute_copy().empty());
  }
}

BOOST_AUTO_TEST_CASE(bf16_has_a_copy_beside_the_parameters) {
  for (const int fsdp_size : {1, 3, 8}) {
    const Stored s(fsdp_size, DType::bf16);
    const std::int64_t n = s.shard_map.rank_shard_elements();
    const std::int64_t num_frozen = s.frozen_map.rank_shard_elements();
    BOOST_TEST(s.parameters.used_bytes() == test::bytes_of(n, DType::float32) + test::bytes_of(n, DType::bf16) +
                                                test::bytes_of(num_frozen, DType::bf16));
    BOOST_TEST((s.storage.frozen_parameters().dtype == DType::bf16));
    BOOST_TEST(s.gradients.used_bytes() == test::bytes_of(n, DType::float32));
    BOOST_TEST((s.storage.parameters().dtype == DType::float32));
    BOOST_TEST((s.storage.gradients().dtype == DType::float32));
    BOOST_TEST((s.storage.compute_copy().dtype == DType::bf16));
    BOOST_TEST(s.storage.compute_copy().num_elements() == n);
  }
}

BOOST_AUTO_TEST_CASE(parts_of_units_fill_the_rank_shard_in_order) {
  for (const DType compute : {DType::float32, DType::bf16}) {
    const Stored s(3, compute);
    const Tensor sent = compute == DType::float32 ? s.storage.parameters() : s.storage.compute_copy();
    std::int64_t elements = 0;
    for (int u = 0; u < s.shard_map.num_units(); ++u) {
      const Tensor parameters = s.storage.parameters_of(u), gradients = s.storage.gradients_of(u);
      BOOST_TEST((parameters.dtype == compute));
      BOOST_TEST((gradients.dtype == DType::float32));
      BOOST_TEST(parameters.num_elements() == s.shard_map.unit(u).num_elements / 3);
      BOOST_TEST(gradients.num_elements() == parameters.num_elements());
      const auto before = static_cast<std::size_t>(elements);
      BOOST_TEST(test::distance_bytes(sent, parameters) == static_cast<std::int64_t>(before * size_of(compute)));
      BOOST_TEST(test::distance_bytes(s.storage.gradients(), gradients) ==
                 static_cast<std::int64_t>(before * sizeof(float)));
      elements += parameters.num_elements();
    }
    BOOST_TEST(elements == s.shard_map.rank_shard_elements());
  }
}

BOOST_AUTO_TEST_CASE(frozen_parts_fill_the_frozen_rank_shard_in_order) {
  for (const DType compute : {DType::float32, DType::bf16}) {
    const Stored s(3, compute);
    std::int64_t elements = 0;
    for (int u = 0; u < s.frozen_map.num_units(); ++u) {
      const Tensor part = s.storage.frozen_parameters_of(u);
      BOOST_TEST((part.dtype == compute));
      BOOST_TEST(part.num_elements() == s.frozen_map.unit(u).num_elements / 3);
      BOOST_TEST((part.num_elements() == 0) == (u % 3 == 2));
      const auto before = static_cast<std::size_t>(elements);
      BOOST_TEST(test::distance_bytes(s.storage.frozen_parameters(), part) ==
                 static_cast<std::int64_t>(before * size_of(compute)));
      elements += part.num_elements();
    }
    BOOST_TEST(elements == s.frozen_map.rank_shard_elements());
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::parallel
