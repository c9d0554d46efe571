// SPDX-License-Identifier: Apache-2.0
// What does not lie in the memory of GPUs while they work, or not all at once: state of the optimizer in the memory of
// the node or in files, activations in files, heads of attention in groups. The bits are those of all in their own
// memory, in any order of their streams, also where a checkpoint leads from one place to another.

#include <iterator>
#include <string>
#include <vector>

#include "runtime/stream_queue.hpp"
#include "support/mpi_session.hpp"
// The main comes first.
#include "support/checkpoint_fixture.hpp"
#include "tiny_run.hpp"

namespace {

using namespace sft;
using config::Offload;
using config::Precision;
using test::Family;
using test::session;
using test::TinyRun;

/// More units than there are buffers of windows, so that buffers are used again in a step.
const std::vector<TinyRun> runs{
    {.layout = {1, 1, 1, 1},
     .family = Family::qwen2,
     .precision = Precision::bf16,
     .accumulation = 2,
     .evaluates = false,
     .max_length = 8},
    {.layout = {1, 1, 1, 1}, .family = Family::llama, .evaluates = false, .max_length = 8},
    {.layout = {1, 2, 1, 2},
     .family = Family::llama,
     .precision = Precision::bf16,
     .evaluates = false,
     .max_length = 8},
    {.layout = {1, 4, 1, 1},
     .family = Family::qwen3,
     .reshard_size = 2,
     .has_adapters = true,
     .evaluates = false,
     .max_length = 8},
    {.layout = {2, 2, 1, 1},
     .family = Family::qwen2,
     .precision = Precision::bf16,
     .zero_stage = 1,
     .evaluates = false,
     .max_length = 8},
};

struct Places {
  Offload moments, weights;
};

/// Those that go with a precision: others than bf16 have no master weights for a file.
std::vector<Places> places_of(Precision precision) {
  if (precision != Precision::bf16) {
    return {{Offload::host, Offload::none}, {Offload::host, Offload::host}, {Offload::nvme, Offload::host}};
  }
  return {{Offload::host, Offload::none},
          {Offload::none, Offload::host},
          {Offload::host, Offload::host},
          {Offload::nvme, Offload::nvme},
          {Offload::host, Offload::nvme}};
}

TinyRun with(TinyRun tiny, const Places& places) {
  tiny.offload_optimizer = places.moments;
  tiny.offload_parameters = places.weights;
  return tiny;
}

test::TinyOutcome run_in_order(const TinyRun& tiny, unsigned order) {
  emulation::set_seed(1000ULL * order + static_cast<unsigned>(session().world().rank()));
  return run(tiny, device::Kind::cuda, session());
}

void check_same(const test::TinyOutcome& outcome, const test::TinyOutcome& wanted) {
  BOOST_TEST(outcome.losses == wanted.losses);
  BOOST_TEST(outcome.grad_norms == wanted.grad_norms);
  BOOST_TEST((outcome.state == wanted.state));
}

/// Calls visit(run) for those on as many ranks as there are, files in a folder.
template <class Visit>
void for_each_run(const Visit& visit) {
  const test::SharedFolder folder(session().world());
  for (TinyRun tiny : runs) {
    if (tiny.layout.size() != session().world().size()) continue;
    tiny.offload_folder = folder.path();
    visit(tiny, folder.path());
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(where_state_lies_changes_no_bit) {
  for_each_run([](const TinyRun& tiny, const std::string&) {
    const test::TinyOutcome in_place = run_in_order(tiny, 0);
    unsigned order = 0;
    for (const Places& places : places_of(tiny.precision)) {
      const TinyRun elsewhere = with(tiny, places);
      BOOST_TEST_CONTEXT(elsewhere.name()) { check_same(run_in_order(elsewhere, ++order), in_place); }
    }
  });
}

// Stepped under the backward pass, units share the memory of gradients. nan_policy = skip keeps them all to the end of
// the step.
BOOST_AUTO_TEST_CASE(gradients_that_leave_change_no_bit) {
  for_each_run([](const TinyRun& tiny, const std::string&) {
    TinyRun kept = tiny;
    kept.accumulation = 1;
    kept.max_grad_norm = 0.0;
    kept.checkpointing = config::ActivationCheckpointing::full;
    kept.mlp_tile_tokens = 5;
    kept.offloads_activations = true;
    kept.nan_policy = config::NanPolicy::skip;
    const test::TinyOutcome wanted = run_in_order(kept, 0);
    unsigned order = 0;
    for (const Places& places :
         {Places{Offload::none, Offload::none}, {Offload::host, Offload::none}, {Offload::host, Offload::host}}) {
      TinyRun left = with(kept, places);
      left.nan_policy = config::NanPolicy::stop;
      BOOST_TEST_CONTEXT(left.name()) { check_same(run_in_order(left, ++order), wanted); }
    }
  });
}

BOOST_AUTO_TEST_CASE(activations_in_files_change_no_bit) {
  for_each_run([](const TinyRun& tiny, const std::string&) {
    unsigned order = 0;
    for (const auto checkpointing : {config::ActivationCheckpointing::none, config::ActivationCheckpointing::full}) {
      TinyRun in_memory = tiny;
      in_memory.checkpointing = checkpointing;
      in_memory.offloads_activations = true;
      in_memory.num_layers = 6;    // more of them leave than there are buffers on the way
      in_memory.evaluates = true;  // passes between those that move activations
      const test::TinyOutcome wanted = run_in_order(in_memory, 0);
      TinyRun moved = in_memory;
      moved.activations_go_to_files = true;
      BOOST_TEST_CONTEXT(moved.name()) { check_same(run_in_order(moved, ++order), wanted); }
    }
  });
}

BOOST_AUTO_TEST_CASE(heads_in_groups_change_no_bit) {
  for_each_run([](const TinyRun& tiny, const std::string&) {
    if (tiny.layout[Axis::tp] > 1 || tiny.family == Family::qwen3) return;  // a key/value head on each rank
    TinyRun whole = tiny;
    whole.checkpointing = config::ActivationCheckpointing::full;
    whole.evaluates = true;
    TinyRun grouped = whole;
    grouped.head_groups = 2;
    const test::TinyOutcome wanted = run_in_order(whole, 0), outcome = run_in_order(grouped, 1);
    BOOST_TEST_CONTEXT(grouped.name()) {
      check_same(outcome, wanted);
      BOOST_TEST(outcome.evaluation == wanted.evaluation);
    }
  });
}

// All that makes room for very long rows in one run: what each of them does alone, the cases above say. Tiles are in
// both runs: they alone change the order of sums.
BOOST_AUTO_TEST_CASE(what_makes_room_for_long_rows_changes_no_bit) {
  const test::SharedFolder folder(session().world());
  const TinyRun whole{.layout = {1, session().world().size(), 1, 1},
                      .family = Family::llama,
                      .precision = Precision::pure_bf16,
                      .moments_dtype = DType::bf16,
                      .checkpointing = config::ActivationCheckpointing::none,
                      .num_layers = 6,
                      .offload_folder = folder.path(),
                      .max_grad_norm = 0.0,
                      .nan_policy = config::NanPolicy::skip,
                      .mlp_tile_tokens = 5,
                      .max_length = 8};
  TinyRun roomy = whole;
  roomy.checkpointing = config::ActivationCheckpointing::full;
  roomy.offloads_activations = roomy.activations_go_to_files = true;
  roomy.head_groups = 2;
  roomy.nan_policy = config::NanPolicy::stop;  // units are stepped early, and their gradients leave
  const test::TinyOutcome wanted = run_in_order(whole, 0);
  for (const Offload moments : {Offload::none, Offload::host}) {
    roomy.offload_optimizer = moments;
    const test::TinyOutcome outcome = run_in_order(roomy, moments == Offload::none ? 1 : 2);
    BOOST_TEST_CONTEXT(roomy.name()) {
      check_same(outcome, wanted);
      BOOST_TEST(outcome.evaluation == wanted.evaluation);
    }
  }
}

BOOST_AUTO_TEST_CASE(a_checkpoint_leads_from_one_place_to_another) {
  for_each_run([](const TinyRun& tiny, const std::string& folder) {
    if (tiny.precision != Precision::bf16 || tiny.zero_stage < 3) return;
    const test::TinyOutcome uninterrupted = run_in_order(tiny, 0);
    const Places places[] = {
        {Offload::none, Offload::none}, {Offload::host, Offload::host}, {Offload::nvme, Offload::nvme}};
    for (std::size_t i = 0; i < std::size(places); ++i) {
      TinyRun first = with(tiny, places[i]), second = with(tiny, places[(i + 1) % std::size(places)]);
      first.num_steps = second.first_step = 1;
      first.saves_to = second.resumes_from = folder + "/" + std::to_string(i);
      test::TinyOutcome outcome = run_in_order(first, 1);
      test::TinyOutcome rest = run_in_order(second, 2);
      outcome.losses.push_back(rest.losses.back());
      outcome.grad_norms.push_back(rest.grad_norms.back());
      outcome.state = rest.state;
      BOOST_TEST_CONTEXT(first.name() << ", then " << second.name()) { check_same(outcome, uninterrupted); }
    }
  });
}
