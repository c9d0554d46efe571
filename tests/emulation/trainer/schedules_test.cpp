// SPDX-License-Identifier: Apache-2.0
// Whatever order the streams of a GPU run in, and whenever other ranks come: the same bits, and no race.

#include <cstdlib>
#include <vector>

#include "runtime/stream_queue.hpp"
#include "support/mpi_session.hpp"
#include "tiny_run.hpp"

namespace {

using namespace sft;
using config::SpMethod;
using test::Family;
using test::session;
using test::TinyRun;

/// Meshes in which all streams have work: gathers, reductions, attention over the sequence, sums over tp, tokens on
/// their way to experts, sums that travel as bf16; offloaded activations and state. Two steps where updates run under a
/// second forward pass.
const std::vector<TinyRun> runs{
    {.layout = {1, 1, 1, 1},
     .family = Family::qwen2,
     .precision = config::Precision::bf16,
     .checkpointing = config::ActivationCheckpointing::selective,
     .offloads_activations = true,
     .accumulation = 2,
     .num_steps = 1,
     .evaluates = false,
     .max_length = 8},
    {.layout = {1, 1, 1, 1},
     .family = Family::llama,
     .offload_optimizer = config::Offload::host,
     .offload_parameters = config::Offload::host,
     .num_steps = 2,
     .evaluates = false,
     .max_length = 8},
    {.layout = {1, 2, 2, 1},
     .family = Family::llama,
     .accumulation = 2,
     .num_steps = 2,
     .evaluates = false,
     .max_length = 8},
    {.layout = {2, 1, 1, 2},
     .family = Family::qwen3,
     .precision = config::Precision::bf16,
     .num_steps = 1,
     .evaluates = false,
     .max_length = 8},
    {.layout = {1, 2, 1, 2},
     .family = Family::llama,
     .precision = config::Precision::bf16,
     .fp8 = config::Fp8::tensorwise,
     .accumulation = 2,
     .num_steps = 2,
     .evaluates = false,
     .max_length = 8},
    {.layout = {2, 1, 1, 2},
     .family = Family::llama,
     .precision = config::Precision::bf16,
     .reduce_dtype = DType::bf16,
     .tp_reduce = DType::bf16,
     .tp_sequence_parallel = false,
     .num_steps = 1,
     .evaluates = false,
     .max_length = 8},
    {.layout = {1, 2, 1, 2},
     .family = Family::llama,
     .precision = config::Precision::bf16,
     .reduce_dtype = DType::bf16,
     .tp_reduce = DType::bf16,
     .num_steps = 1,
     .evaluates = false,
     .max_length = 8},
    {.layout = {1, 2, 1, 1},
     .ep_size = 2,
     .family = Family::qwen3,
     .num_experts = 8,
     .num_steps = 1,
     .evaluates = false,
     .max_length = 8},
};

/// SFT_EMULATED_SCHEDULES, or what ctest has time for.
int num_schedules() {
  const char* text = std::getenv("SFT_EMULATED_SCHEDULES");
  return text != nullptr ? std::atoi(text) : session().world().size() == 1 ? 60 : 12;
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_order_gives_the_same_bits) {
  for (const TinyRun& tiny : runs) {
    if (tiny.mesh().size() != session().world().size()) continue;
    test::TinyOutcome first;
    for (int schedule = 0; schedule < num_schedules(); ++schedule) {
      emulation::set_seed(1000ULL * static_cast<unsigned>(schedule) + static_cast<unsigned>(session().world().rank()));
      const test::TinyOutcome outcome = run(tiny, device::Kind::cuda, session());
      if (schedule == 0) first = outcome;
      BOOST_TEST_CONTEXT(tiny.name() << ", schedule " << schedule) {
        BOOST_TEST(outcome.losses == first.losses);
        BOOST_TEST(outcome.grad_norms == first.grad_norms);
        BOOST_TEST(outcome.evaluation == first.evaluation);
        BOOST_TEST((outcome.state == first.state));
      }
    }
  }
}
