// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "support/mesh.hpp"
#include "support/mpi_session.hpp"

namespace sft::test {

namespace {

/// Every mesh whose sizes multiply to the world size.
std::vector<mesh::Layout> layouts_of(int world_size) {
  std::vector<AxisArray<int>> all{AxisArray<int>(1, {})};
  for (const Axis axis : all_axes) {
    std::vector<AxisArray<int>> longer;
    for (const AxisArray<int>& sizes : all) {
      const int left = world_size / num_ranks(sizes, every_axis);
      for (int size = 1; size <= left; ++size) {
        if (left % size != 0) continue;
        longer.push_back(sizes);
        longer.back()[axis] = size;
      }
    }
    all = std::move(longer);
  }
  std::vector<mesh::Layout> layouts;
  for (const AxisArray<int>& sizes : all) {
    if (num_ranks(sizes, every_axis) == world_size) layouts.emplace_back(sizes);
  }
  return layouts;
}

/// World ranks of a group, in its order.
std::vector<WorldRank> members_of(const comm::Group& group, std::int64_t world_rank) {
  const std::vector<std::int64_t> ranks = group.all_gather(std::span<const std::int64_t>(&world_rank, 1));
  std::vector<WorldRank> members;
  for (const std::int64_t rank : ranks) members.push_back(WorldRank::from(static_cast<int>(rank)));
  return members;
}

/// Collective over the world.
void check_members(const Mesh& mesh) {
  const comm::Group& world = session().world();
  const auto check = [&](const comm::Group& group, const AxisSet& axes) {
    BOOST_TEST(members_of(group, world.rank()) == mesh.place.layout().members(WorldRank::from(world.rank()), axes),
               boost::test_tools::per_element());
  };
  check(mesh.groups.world, every_axis);
  check(mesh.groups.replicate, {Axis::dp_replicate});
  check(mesh.groups.sp, {Axis::sp});
  check(mesh.groups.tp, {Axis::tp});
  check(mesh.groups.rows, {Axis::sp, Axis::tp});
  check(mesh.groups.fsdp, {Axis::dp_shard, Axis::ep, Axis::sp});
  check(mesh.groups.kv_replicas, {Axis::tp});  // one head: all tp ranks hold it
}

/// Groups of tensors have several ranks and the limits of their axes.
void check_groups_of_tensors(const Mesh& mesh) {
  const AxisArray<int> max_ctas{
      {Axis::dp_replicate, 1}, {Axis::dp_shard, 2}, {Axis::sp, 3}, {Axis::tp, 4}, {Axis::ep, 5}};
  const mesh::Groups& groups = mesh.groups;
  std::size_t num_groups = 0;
  std::vector<std::pair<comm::Group, int>> expected{
      {groups.replicate, 1}, {groups.fsdp, 2}, {groups.sp, 3}, {groups.tp, 4}, {groups.kv_replicas, 4}};
  if (mesh.place.layout()[Axis::ep] > 1) {  // else experts have the same ones
    expected.insert(expected.end(), {{groups.expert_replicate, 1}, {groups.expert_fsdp, 2}, {groups.ep, 5}});
  }
  for (const auto& [group, limit] : expected) {
    if (group.size() == 1) continue;
    ++num_groups;
    const std::vector<comm::TensorGroup> all = groups.of_tensors({.max_ctas = max_ctas});
    const auto found = std::ranges::find(all, group, &comm::TensorGroup::group);
    BOOST_TEST_REQUIRE((found != all.end()));
    BOOST_TEST(found->max_ctas == limit);
    BOOST_TEST(found->has_exchanges == (group == groups.sp || group == groups.ep));
  }
  BOOST_TEST(groups.of_tensors().size() == num_groups);  // no more: nobody reshards to a group
}

/// Copies sum over all axes but tp. Collective over the world.
void check_copies(const Mesh& mesh) {
  const comm::Group& world = session().world();
  BOOST_TEST(mesh.groups.fsdp.size() == 1);
  BOOST_TEST(members_of(mesh.groups.replicate, world.rank()) ==
                 mesh.place.layout().members(WorldRank::from(world.rank()),
                                             {Axis::dp_replicate, Axis::dp_shard, Axis::ep, Axis::sp}),
             boost::test_tools::per_element());
}

/// Units are kept together by `n` neighbours. Collective over the world.
void check_neighbours(const Mesh& mesh, int n) {
  const comm::Group& world = session().world();
  const std::vector<WorldRank> fsdp = mesh.place.layout().members(WorldRank::from(world.rank()), fsdp_axes);
  const auto first = fsdp.begin() + mesh.place.rank(fsdp_axes) / n * n;
  BOOST_TEST(members_of(mesh.groups.reshard, world.rank()) == std::vector<WorldRank>(first, first + n),
             boost::test_tools::per_element());
  BOOST_TEST(mesh.groups.reshard.rank() == mesh.place.rank(fsdp_axes) % n);
}

/// Groups that are made are those that a plan has.
void check_planned(const Mesh& mesh, const mesh::Sharing& sharing) {
  const mesh::Groups planned = mesh::Groups::planned(mesh.place, sharing);
  for (const auto group : {&mesh::Groups::world, &mesh::Groups::replicate, &mesh::Groups::fsdp, &mesh::Groups::reshard,
                           &mesh::Groups::sp, &mesh::Groups::tp, &mesh::Groups::kv_replicas, &mesh::Groups::gathers,
                           &mesh::Groups::ep, &mesh::Groups::expert_replicate, &mesh::Groups::expert_fsdp,
                           &mesh::Groups::expert_gathers, &mesh::Groups::expert_reshard}) {
    const comm::Group &made = mesh.groups.*group, &expected = planned.*group;
    BOOST_TEST_REQUIRE(made.size() == expected.size(), expected.name());
    BOOST_TEST_REQUIRE(made.rank() == expected.rank(), expected.name());
    if (made.size() > 1) BOOST_TEST_REQUIRE(made.name() == expected.name());
  }
  BOOST_TEST(mesh.groups.of_tensors().size() == planned.of_tensors().size());
}

}  // namespace

BOOST_AUTO_TEST_SUITE(mesh_groups)

// Groups of many ranks take long to make: those of each mesh are made once for all that is asked of them.
BOOST_AUTO_TEST_CASE(groups_of_all_meshes) {
  const comm::Group& world = session().world();
  for (const mesh::Layout& layout : layouts_of(world.size())) {
    BOOST_TEST_CONTEXT(layout.describe()) {
      const auto make = [&](const mesh::Sharing& sharing) {
        const Mesh mesh(world, layout, sharing);
        check_planned(mesh, sharing);
        return mesh;
      };
      const int tp_size = layout[Axis::tp];
      const Mesh with_one_head = make({.kv_replicas = tp_size});
      check_members(with_one_head);
      check_groups_of_tensors(with_one_head);
      check_copies(make({.shard_axes = {}, .kv_replicas = tp_size}));
      const int expert_fsdp_size = layout.size(fsdp_axes) / layout[Axis::ep];  // experts have neighbours, too
      for (int n = 1; n <= expert_fsdp_size; ++n) {
        if (expert_fsdp_size % n == 0) check_neighbours(make({.reshard_size = n}), n);
      }
      if (tp_size % 2 == 0) make({.reshard_size = expert_fsdp_size % 2 == 0 ? 2 : 1, .kv_replicas = 2});
    }
  }
}

BOOST_AUTO_TEST_CASE(sizes_that_do_not_divide_are_a_bug) {
  const comm::Group& world = session().world();
  const mesh::Place place(mesh::Layout{{Axis::dp_shard, world.size()}}, WorldRank::from(world.rank()));
  const int no_divisor = world.size() + 1;
  BOOST_CHECK_THROW(mesh::Groups(world, place, {.reshard_size = no_divisor}), std::logic_error);
  BOOST_CHECK_THROW(mesh::Groups(world, place, {.kv_replicas = 2}), std::logic_error);
  BOOST_CHECK_THROW((void)mesh::Groups::planned(place, {.reshard_size = no_divisor}), std::logic_error);
}

BOOST_AUTO_TEST_CASE(replicas_of_a_head_are_neighbours) {
  const comm::Group& world = session().world();
  if (world.size() % 4 != 0) return;
  const Layout layout{world.size() / 4, 1, 1, 4};
  const Mesh mesh(world, layout, {.kv_replicas = 2});
  BOOST_TEST(mesh.groups.kv_replicas.size() == 2);
  const int first = world.rank() / 2 * 2;
  BOOST_TEST(members_of(mesh.groups.kv_replicas, world.rank()) == (std::vector<int>{first, first + 1}),
             boost::test_tools::per_element());
  BOOST_TEST(Mesh(world, layout).groups.kv_replicas.size() == 1);
}

BOOST_AUTO_TEST_CASE(a_mesh_of_another_size_is_refused) {
  BOOST_CHECK_EXCEPTION(Mesh(session().world(), Layout{5, 7, 1, 1}), Error, [](const Error& error) {
    return error.status() == ExitStatus::configuration &&
           std::string(error.what()).find("35 ranks") != std::string::npos;
  });
}

}  // namespace sft::test

BOOST_AUTO_TEST_SUITE_END()
