// SPDX-License-Identifier: Apache-2.0
#include "sft/mesh/place.hpp"

#include <boost/test/unit_test.hpp>
#include <map>

#include "support/layout.hpp"

namespace sft::mesh {

BOOST_AUTO_TEST_CASE(a_place_agrees_with_the_members_of_its_groups) {
  const test::Layout layout{2, 3, 2, 4};
  for (const WorldRank rank : layout.ranks()) {
    const Place place(layout, rank);
    BOOST_TEST(place.rank() == rank);
    const auto position_among = [&](const AxisSet& axes) {
      const std::vector<WorldRank> members = layout.members(rank, axes);
      return std::pair(std::find(members.begin(), members.end(), rank) - members.begin(), members.size());
    };
    BOOST_TEST((position_among({Axis::dp_shard, Axis::sp}) ==
                std::pair(place.rank(fsdp_axes) + 0L, place.size(fsdp_axes) + 0UL)));
    BOOST_TEST((position_among({Axis::dp_replicate, Axis::dp_shard}) ==
                std::pair(place.data_rank() + 0L, place.data_size() + 0UL)));
  }
}

BOOST_AUTO_TEST_CASE(ranks_of_ep_read_rows_and_hold_shards_of_their_own) {
  const Layout layout{{Axis::dp_shard, 3}, {Axis::ep, 2}, {Axis::sp, 2}, {Axis::tp, 2}};
  const Layout without{{Axis::dp_shard, 6}, {Axis::sp, 2}, {Axis::tp, 2}};
  for (const WorldRank rank : layout.ranks()) {
    const Place place(layout, rank), alike(without, rank);
    BOOST_TEST(place.data_rank() == alike.data_rank());
    BOOST_TEST(place.rank(fsdp_axes) == alike.rank(fsdp_axes));
    BOOST_TEST(place.rank(Axis::tp) == alike.rank(Axis::tp));
    BOOST_TEST(place.size(replica_axes) == 12);
  }
}

BOOST_AUTO_TEST_CASE(one_rank_speaks_for_what_several_hold) {
  const Layout layout{{Axis::dp_replicate, 2}, {Axis::dp_shard, 3}, {Axis::ep, 2}, {Axis::sp, 2}, {Axis::tp, 4}};
  std::map<std::pair<int, int>, int> rows, tokens, shards;
  for (const WorldRank rank : layout.ranks()) {
    const Place place(layout, rank);
    rows[{place.data_rank(), 0}] += place.owns_rows() ? 1 : 0;
    tokens[{place.data_rank(), place.rank(Axis::sp)}] += place.owns_tokens() ? 1 : 0;
    shards[{place.rank(fsdp_axes), place.rank(Axis::tp)}] += place.owns_shard(fsdp_axes) ? 1 : 0;
  }
  BOOST_TEST(rows.size() == 2U * 3U * 2U);
  BOOST_TEST(tokens.size() == 2U * 3U * 2U * 2U);
  BOOST_TEST(shards.size() == 3U * 2U * 2U * 4U);
  for (const auto& owners : {rows, tokens, shards}) {
    for (const auto& [what, count] : owners) BOOST_TEST(count == 1);
  }
}

BOOST_AUTO_TEST_CASE(copies_are_replicas_on_every_axis_but_tp) {
  const test::Layout layout{2, 3, 2, 4};
  std::map<int, int> owners;  // by tp rank
  for (const WorldRank rank : layout.ranks()) {
    const Place place(layout, rank);
    owners[place.rank(Axis::tp)] += place.owns_shard({}) ? 1 : 0;
    BOOST_TEST(place.owns_shard(fsdp_axes) == (place.rank(Axis::dp_replicate) == 0));
  }
  BOOST_TEST(owners.size() == 4U);
  for (const auto& [tp, count] : owners) BOOST_TEST(count == 1);
}

BOOST_AUTO_TEST_CASE(there_is_no_rank_outside_of_the_mesh) {
  BOOST_CHECK_THROW(Place(Layout{{Axis::sp, 3}}, 3), std::logic_error);
  BOOST_CHECK_THROW(Place(Layout{{Axis::sp, 3}}, -1), std::logic_error);
}

BOOST_AUTO_TEST_CASE(a_peer_is_made_of_the_same_mesh) {
  const Place place(test::Layout{2, 1, 2, 4}, 5);
  const Place peer = place.peer(15);
  BOOST_TEST(peer.rank() == 15);
  BOOST_TEST(peer.layout().describe() == place.layout().describe());
}

}  // namespace sft::mesh
