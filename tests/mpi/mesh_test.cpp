#define BOOST_TEST_MODULE mpi_mesh
#define BOOST_TEST_NO_MAIN
#include "sft/mesh/mesh.hpp"

#include <string>

#include "support/mpi_test_main.hpp"

namespace sft::test {

namespace {

/// Every mesh whose sizes multiply to the world size.
std::vector<mesh::Layout> layouts_of(int world_size) {
  std::vector<mesh::Layout> layouts;
  for (int replicate = 1; replicate <= world_size; ++replicate) {
    for (int shard = 1; replicate * shard <= world_size; ++shard) {
      for (int sp = 1; replicate * shard * sp <= world_size; ++sp) {
        if (world_size % (replicate * shard * sp) != 0) continue;
        layouts.push_back({replicate, shard, sp, world_size / (replicate * shard * sp)});
      }
    }
  }
  return layouts;
}

/// World ranks of a group, in its order.
std::vector<int> members_of(const comm::Group& group, int world_rank) {
  std::vector<int> ranks;
  for (const std::string& text : group.all_gather(std::to_string(world_rank))) ranks.push_back(std::stoi(text));
  return ranks;
}

}  // namespace

BOOST_AUTO_TEST_CASE(groups_hold_the_ranks_that_the_arithmetic_says) {
  const comm::Group& world = session().world();
  for (const mesh::Layout& layout : layouts_of(world.size())) {
    const mesh::Mesh mesh(session(), layout, 1);
    const auto check = [&](const comm::Group& group, std::array<bool, 4> kept_axes) {
      BOOST_TEST(members_of(group, world.rank()) == layout.members(world.rank(), kept_axes),
                 boost::test_tools::per_element());
    };
    BOOST_TEST_CONTEXT(layout.describe()) {
      BOOST_TEST((mesh.coordinates == layout.coordinates(world.rank())));
      check(mesh.world, {true, true, true, true});
      check(mesh.replicate, {true, false, false, false});
      check(mesh.shard, {false, true, false, false});
      check(mesh.sp, {false, false, true, false});
      check(mesh.tp, {false, false, false, true});
      check(mesh.data, {true, true, false, false});
      check(mesh.fsdp, {false, true, true, false});
      check(mesh.model, {false, false, true, true});
      check(mesh.parameters, {false, true, true, true});
      check(mesh.tokens, {true, true, true, false});
      check(mesh.kv_replicas, {false, false, false, true});  // one head: all tp ranks hold it
      BOOST_TEST(mesh.data_rank() == mesh.coordinates[0] * layout.dp_shard + mesh.coordinates[1]);
    }
  }
}

BOOST_AUTO_TEST_CASE(replicas_of_a_head_are_neighbours) {
  const comm::Group& world = session().world();
  if (world.size() % 4 != 0) return;
  const mesh::Mesh mesh(session(), {world.size() / 4, 1, 1, 4}, 2);
  BOOST_TEST(mesh.kv_replicas.size() == 2);
  const int first = world.rank() / 2 * 2;
  BOOST_TEST(members_of(mesh.kv_replicas, world.rank()) == (std::vector<int>{first, first + 1}),
             boost::test_tools::per_element());
  const mesh::Mesh enough_heads(session(), {world.size() / 4, 1, 1, 4}, 8);
  BOOST_TEST(enough_heads.kv_replicas.size() == 1);
}

BOOST_AUTO_TEST_CASE(a_mesh_of_another_size_is_refused) {
  BOOST_CHECK_EXCEPTION(mesh::Mesh(session(), {5, 7, 1, 1}, 1), Error, [](const Error& error) {
    return error.status() == ExitStatus::configuration &&
           std::string(error.what()).find("35 ranks") != std::string::npos;
  });
}

}  // namespace sft::test
