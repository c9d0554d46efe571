// SPDX-License-Identifier: Apache-2.0
// The order of units that share buffers is checked.

#include "sft/parallel/unit_order.hpp"

#include <boost/test/unit_test.hpp>

namespace {

using namespace sft::parallel;
using sft::IndexRange;

/// Embedding, four blocks, head.
struct Fixture {
  static std::vector<Unit> make_units() {
    std::vector<Unit> units(6);
    for (std::size_t u = 0; u < units.size(); ++u) {
      units[u].name = "unit " + std::to_string(u);
      units[u].parameters.resize(1);
      units[u].parameters[0].rows = 5;
    }
    return units;
  }

  explicit Fixture(bool reshard = true, bool tied = false)
      : slots(6, ShardingPolicy{.reshard = reshard ? sft::config::Reshard::always : sft::config::Reshard::never},
              tied) {}

  ShardMap shard_map{make_units(), sft::mesh::Place()};
  SlotAssignment slots;
  UnitOrder order{shard_map, slots};
};

auto says(const std::string& part) {
  return [part](const std::logic_error& error) { return std::string(error.what()).find(part) != std::string::npos; };
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_pass_in_the_right_order) {
  Fixture f;
  for (int pass = 0; pass < 2; ++pass) {
    BOOST_TEST(f.order.gather(1));
    BOOST_TEST(!f.order.gather(1));  // on its way already
    for (UnitIndex u = 1; u <= 4; ++u) {
      f.order.use(u);
      if (u < 4) BOOST_TEST(f.order.gather(UnitIndex::from(u + 1)));
      f.order.read_parameters(u);
      f.order.write_gradient(u);
      BOOST_TEST(f.order.release(u));
      BOOST_TEST(!f.order.release(u));
      f.order.reduce(u);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_buffer_is_not_taken_from_a_unit_that_has_it) {
  Fixture f;
  f.order.gather(1);
  f.order.gather(2);
  BOOST_TEST(!f.order.may_gather(3));
  BOOST_TEST(f.order.may_gather(1));
  BOOST_CHECK_EXCEPTION(f.order.gather(3), std::logic_error, says("unit 3 is gathered before unit 1"));
  f.order.release(1);
  f.order.gather(3);
  f.order.gather(0);
  BOOST_CHECK_EXCEPTION(f.order.gather(5), std::logic_error, says("unit 5 is gathered before unit 0"));
}

BOOST_AUTO_TEST_CASE(parameters_are_read_between_use_and_release) {
  Fixture f;
  BOOST_CHECK_EXCEPTION(f.order.use(1), std::logic_error, says("unit 1 is used before it is gathered"));
  f.order.gather(1);
  BOOST_CHECK_EXCEPTION(f.order.read_parameters(1), std::logic_error, says("unit 1 is read while it is not in use"));
  f.order.use(1);
  f.order.read_parameters(1);
  f.order.release(1);
  BOOST_CHECK_THROW(f.order.read_parameters(1), std::logic_error);
}

BOOST_AUTO_TEST_CASE(a_gradient_is_reduced_before_the_next_one_is_written) {
  Fixture f;
  f.order.write_gradient(4);
  f.order.write_gradient(3);
  BOOST_CHECK_EXCEPTION(f.order.write_gradient(2), std::logic_error, says("the gradient of unit 2 is written before"));
  f.order.reduce(4);
  f.order.write_gradient(2);
}

BOOST_AUTO_TEST_CASE(tied_tables_and_kept_parameters_have_buffers_of_their_own) {
  Fixture tied(true, true);
  tied.order.gather(0);
  BOOST_TEST(tied.order.gather(5));
  Fixture kept(false);
  for (const UnitIndex u : IndexRange<UnitIndex>(6)) BOOST_TEST(kept.order.gather(u));
}
