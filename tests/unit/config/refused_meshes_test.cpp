// SPDX-License-Identifier: Apache-2.0
// Meshes that cannot be: their sizes, what exchanges heads, what TP cuts.
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>

#include "unit/config/refused.hpp"

using namespace sft;
using namespace sft::config;

namespace {

/// reshard_after_forward = N.
void reshard_to(Config& config, int num_neighbours) {
  config.parallel.reshard_after_forward = Reshard::to_groups;
  config.parallel.reshard_size = num_neighbours;
}

const Refused meshes_that_cannot_be[] = {
    // mesh
    {"2 x 3 x 2 x 2 = 24 ranks (dp_replicate x dp_shard x sp x tp), but there are 16",
     [](Config& c) { set_mesh(c, 2, 3, 2, 2); }, 16},
    {"start `mpirun -np 24`, or set dp_shard_size = 2", [](Config& c) { set_mesh(c, 2, 3, 2, 2); }, 16},
    {"or choose sizes whose product is 15", [](Config& c) { set_mesh(c, 2, 2, 2, 2); }, 15},
    {"2 x auto x 2 x 2 ranks (dp_replicate x dp_shard x sp x tp) cannot fill 12 (12 is no multiple of 2 x 2 x "
     "2 = 8): "
     "start `mpirun -np 16`",
     [](Config& c) { set_mesh(c, 2, 0, 2, 2); }, 12},
    {"32768 x 32768 x 32768 x 8 = 281474976710656 ranks", [](Config& c) { set_mesh(c, 32768, 32768, 32768, 8); }, 16},
    {"`parallel.tp_size = 0` is out of range", [](Config& c) { c.parallel.tp_size = 0; }},
    {"`parallel.sp_size = -2` is out of range", [](Config& c) { c.parallel.sp_size = -2; }},
    {"`parallel.dp_shard_size = -1` is out of range", [](Config& c) { c.parallel.dp_shard_size = -1; }},
    {"`parallel.zero_stage = 4` is out of range (it must be 0, 1, 2 or 3)",
     [](Config& c) { c.parallel.zero_stage = 4; }},
    {"`parallel.reshard_after_forward = 4` does not fit the mesh (the ranks that share parameters, "
     "dp_shard_size x "
     "sp_size = 3 x 2 = 6, are no multiple of 4): set it to true, false or one of 2, 3, 6",
     [](Config& c) { reshard_to(c, 4), set_mesh(c, 1, 0, 2, 1); }, 6},
    {"`parallel.reshard_after_forward = 2` does not fit the mesh (the ranks that share parameters, "
     "dp_shard_size x "
     "sp_size = 1 x 1 = 1, are no multiple of 2): set it to true",
     [](Config& c) { reshard_to(c, 2); }},
    {"`parallel.reshard_after_forward = 2` has nothing to do (with zero_stage = 1 parameters stay whole on "
     "every rank)",
     [](Config& c) { reshard_to(c, 2), c.parallel.zero_stage = 1, set_mesh(c, 1, 4, 1, 1); }, 4},
    {"`parallel.ep_size = 0` is out of range", [](Config& c) { c.parallel.ep_size = 0; }},
    {"`parallel.ep_size = 2` has nothing to do (the model has no experts", [](Config& c) { c.parallel.ep_size = 2; },
     2},
    {"`parallel.ep_size = 4` does not fit the model (num_experts / ep_size = 6 / 4 is no whole number): choose a "
     "divisor of 6",
     [](Config& c) { set_experts(c, 6, 2), c.parallel.ep_size = 4; }, 4},
    {"`parallel.ep_size = 2` does not go with reshard_after_forward = 2 (1 share each expert, dp_shard x sp, "
     "which is no multiple of 2)",
     [](Config& c) { set_experts(c, 6, 2), reshard_to(c, 2), c.parallel.ep_size = 2; }, 2},
    {"1 x 2 x 2 x 1 x 1 = 4 ranks (dp_replicate x dp_shard x ep x sp x tp), but there are 8",
     [](Config& c) { set_experts(c, 6, 2), set_mesh(c, 1, 2, 1, 1), c.parallel.ep_size = 2; }, 8},
    {"`parallel.ulysses_size = -1` is out of range", [](Config& c) { c.parallel.ulysses_size = -1; }},
    // what exchanges heads: 8 query heads
    {"8 / 1 = 8 heads, and 8 / sp_size = 8 / 3 is no whole number): set sp_method = hybrid with a ulysses_size "
     "of 1,",
     [](Config& c) { set_mesh(c, 1, 1, 3, 1), c.parallel.sp_method = SpMethod::ulysses; }, 3},
    {"8 / 2 = 4 heads, and 4 / sp_size = 4 / 8 is no whole number): set sp_method = hybrid with a ulysses_size "
     "of 1, "
     "2, 4",
     [](Config& c) { set_mesh(c, 1, 1, 8, 2), c.parallel.sp_method = SpMethod::ulysses; }, 16},
    {"`parallel.ulysses_size = 3` does not fit (it has to divide sp_size = 4 and the query heads of a rank: "
     "num_attention_heads / tp_size = 8 / 1 = 8 heads): set it to one of 1, 2, 4",
     [](Config& c) { set_mesh(c, 1, 1, 4, 1), c.parallel.sp_method = SpMethod::hybrid, c.parallel.ulysses_size = 3; },
     4},
    {"`parallel.ulysses_size = 2` contradicts sp_method = ulysses (with it all sp_size = 4 ranks exchange "
     "heads)",
     [](Config& c) { set_mesh(c, 1, 1, 4, 1), c.parallel.sp_method = SpMethod::ulysses, c.parallel.ulysses_size = 2; },
     4},
    {"`parallel.ulysses_size = 2` would be ignored (this sp_method exchanges no heads)",
     [](Config& c) { set_mesh(c, 1, 1, 4, 1), c.parallel.ulysses_size = 2; }, 4},
    {"`parallel.ulysses_size = 2` would be ignored (sp_method = auto chooses it)",
     [](Config& c) {
       set_mesh(c, 1, 1, 4, 1), c.parallel.sp_method = SpMethod::automatic, c.parallel.ulysses_size = 2;
     },
     4},
    // what TP cuts
    {"8 / tp_size = 8 / 3 is no whole number): set tp_size to one of 1, 2, 4, 8",
     [](Config& c) { set_mesh(c, 1, 1, 1, 3); }, 3},
    {"model.intermediate_size cannot be split over the TP ranks (98 / tp_size = 98 / 4",
     [](Config& c) { c.model.intermediate_size = 98, set_mesh(c, 1, 1, 1, 4); }, 4},
    {"vocab_size = 3 is below tp_size = 4): set tp_size to one of 1, 2",
     [](Config& c) { c.model.vocab_size = 3, set_mesh(c, 1, 1, 1, 4); }, 4},
    {"neither 3 / 2 nor 2 / 3 is a whole number): set tp_size to one of 1, 3, 6",
     [](Config& c) {
       c.model.num_attention_heads = 6, c.model.num_key_value_heads = 3, c.model.head_dim = 8;
       c.model.vocab_size = 288, set_mesh(c, 1, 1, 1, 2);
     },
     2},
};

}  // namespace

BOOST_AUTO_TEST_SUITE(refused_meshes)

BOOST_DATA_TEST_CASE(what_cannot_run_is_refused, boost::unit_test::data::make(meshes_that_cannot_be), refused) {
  check_refused(refused);
}

BOOST_AUTO_TEST_SUITE_END()
