// SPDX-License-Identifier: Apache-2.0
// Chains of launches that are repeated as CUDA graphs: every bit of a run is that of the same run without them, while
// micro-batches have other documents, numbers of tokens and places of targets each time.

#include <optional>
#include <vector>

#include "sft/ops/factory.hpp"
#include "support/checkpoint_fixture.hpp"
#include "support/mpi_session.hpp"
#include "tiny_run.hpp"

namespace {

using namespace sft;
using config::ActivationCheckpointing;
using config::Precision;
using test::Family;
using test::session;
using test::TinyRun;

/// Steps enough for chains to come a third time. Of what is left out of graphs some have experts, a mover. Adapters
/// have dropout, those of a llama magnitudes too.
const std::vector<TinyRun> runs{
    {.layout = {1, 1, 1, 1}, .family = Family::llama, .accumulation = 3, .num_steps = 4, .max_length = 10},
    {.layout = {1, 1, 1, 1},
     .family = Family::qwen3,
     .precision = Precision::bf16,
     .checkpointing = ActivationCheckpointing::full,
     .accumulation = 2,
     .num_steps = 4,
     .max_length = 8},
    {.layout = {1, 1, 1, 1},
     .family = Family::qwen2,
     .checkpointing = ActivationCheckpointing::selective,
     .offloads_activations = true,
     .accumulation = 2,
     .num_steps = 3,
     .max_length = 8},
    {.layout = {1, 1, 1, 1}, .family = Family::llama, .has_adapters = true, .accumulation = 2, .num_steps = 3},
    {.layout = {1, 1, 1, 1},
     .family = Family::qwen3,
     .precision = Precision::bf16,
     .checkpointing = ActivationCheckpointing::full,
     .has_adapters = true,
     .accumulation = 3,
     .num_steps = 3,
     .max_length = 8},
    {.layout = {1, 1, 1, 1},
     .family = Family::qwen2,
     .precision = Precision::bf16,
     .fp8 = config::Fp8::blockwise,
     .accumulation = 2,
     .num_steps = 3,
     .max_length = 8},
    {.layout = {1, 1, 1, 1}, .family = Family::qwen3, .num_experts = 4, .num_steps = 4, .max_length = 8},
    {.layout = {1, 1, 1, 1},
     .family = Family::llama,
     .precision = Precision::bf16,
     .checkpointing = ActivationCheckpointing::full,
     .accumulation = 3,
     .attention = config::AttentionChoice::hopper,
     .num_steps = 4,
     .max_length = 10},
    {.layout = {1, 1, 1, 1},
     .family = Family::llama,
     .head_dim = 16,
     .precision = Precision::bf16,
     .accumulation = 3,
     .attention = config::AttentionChoice::cudnn,
     .num_steps = 4,
     .max_length = 10},
    {.layout = {1, 2, 1, 1}, .family = Family::llama, .accumulation = 2, .num_steps = 4, .max_length = 10},
    {.layout = {1, 1, 2, 1}, .family = Family::llama, .accumulation = 2, .num_steps = 3, .max_length = 12},
    {.layout = {1, 1, 2, 1},
     .family = Family::llama,
     .head_dim = 16,
     .precision = Precision::bf16,
     .accumulation = 2,
     .attention = config::AttentionChoice::cudnn,
     .num_steps = 3,
     .max_length = 12},
    {.layout = {1, 1, 2, 1},
     .family = Family::qwen3,
     .head_dim = 16,
     .precision = Precision::bf16,
     .sp_method = config::SpMethod::ulysses,
     .accumulation = 2,
     .attention = config::AttentionChoice::cudnn,
     .num_steps = 3,
     .max_length = 12},
    {.layout = {1, 2, 1, 1},
     .family = Family::qwen2,
     .precision = Precision::bf16,
     .zero_stage = 1,
     .accumulation = 2,
     .num_steps = 3,
     .max_length = 8},
    {.layout = {1, 1, 1, 2}, .family = Family::qwen3, .accumulation = 2, .num_steps = 3, .max_length = 8},
    {.layout = {1, 1, 1, 2},
     .family = Family::olmo2,
     .precision = Precision::bf16,
     .fp8 = config::Fp8::tensorwise,
     .accumulation = 2,
     .num_steps = 3,
     .max_length = 8},
    {.layout = {1, 2, 1, 1},
     .family = Family::llama,
     .precision = Precision::bf16,
     .has_adapters = true,
     .accumulation = 2,
     .num_steps = 3,
     .max_length = 8},
};

/// A build may be without cuDNN.
bool can_run(const TinyRun& tiny) {
  if (tiny.mesh().size() != session().world().size()) return false;
  return tiny.attention != config::AttentionChoice::cudnn || ops::find_attention_library().problem.empty();
}

TinyRun with(TinyRun tiny, std::optional<bool> cuda_graphs) {
  tiny.lengths_vary = true;
  tiny.cuda_graphs = cuda_graphs;
  return tiny;
}

void expect_equal(const test::TinyOutcome& one, const test::TinyOutcome& other) {
  BOOST_TEST(one.losses == other.losses);
  BOOST_TEST(one.grad_norms == other.grad_norms);
  BOOST_TEST(one.evaluation == other.evaluation);
  BOOST_TEST((one.state == other.state));
}

}  // namespace

BOOST_AUTO_TEST_CASE(graphs_change_no_bit) {
  for (const TinyRun& tiny : runs) {
    if (!can_run(tiny)) continue;
    BOOST_TEST_CONTEXT(tiny.name()) {
      const test::TinyOutcome plain = run(with(tiny, false), device::Kind::cuda, session());
      const test::TinyOutcome repeated = run(with(tiny, true), device::Kind::cuda, session());
      expect_equal(repeated, plain);
      BOOST_TEST(plain.launches.plain + plain.launches.repeated == 0);
      BOOST_TEST(repeated.launches.recordings > 0);
      BOOST_TEST(repeated.launches.repeated > repeated.launches.chains);
    }
  }
}

// Micro-batches of as many tokens each, in other documents: what is left of launches that are made one by one is what
// stands alone between updates and reductions that are waited for. Of the fourth step: the chains of the first, which
// waits for no update, are others, and those of the second come for the first time.
BOOST_AUTO_TEST_CASE(most_launches_of_equal_micro_batches_are_repeated) {
  if (session().world().size() != 1) return;
  const auto launches_of = [](int accumulation, bool has_adapters) {
    const auto until = [&](int num_steps) {
      const TinyRun tiny{.layout = {1, 1, 1, 1},
                         .num_layers = 4,
                         .has_adapters = has_adapters,
                         .accumulation = accumulation,
                         .num_steps = num_steps,
                         .evaluates = false,
                         .max_length = 8,
                         .fills_rows = true};
      return run(tiny, device::Kind::cuda, session()).launches;  // auto: it is a small model
    };
    const device::LaunchTape::Counts three = until(3), four = until(4);
    BOOST_TEST(four.recordings == three.recordings);
    return device::LaunchTape::Counts{.plain = four.plain - three.plain,
                                      .repeated = four.repeated - three.repeated,
                                      .chains = four.chains - three.chains};
  };
  for (const bool has_adapters : {false, true}) {
    const device::LaunchTape::Counts two = launches_of(2, has_adapters), three = launches_of(3, has_adapters);
    BOOST_TEST(two.repeated > 50 * two.plain);
    // One that waits for nothing: the last step of the loss, which has the step's factor, is between its two chains,
    // each of which has the attention of all layers, and what adapters drop.
    BOOST_TEST(three.chains - two.chains == 2);
    BOOST_TEST(three.plain == two.plain);
  }
}

BOOST_AUTO_TEST_CASE(a_run_goes_on_with_the_same_bits) {
  const bool is_alone = session().world().size() == 1;
  if (!is_alone && session().world().size() != 2) return;
  const test::SharedFolder folder(session().world());
  const TinyRun whole{.layout = {1, is_alone ? 1 : 2, 1, 1}, .accumulation = 2, .num_steps = 4, .max_length = 8};
  TinyRun first = with(whole, true), second = with(whole, true);
  first.num_steps = second.first_step = 2;
  first.saves_to = second.resumes_from = folder.path();
  const test::TinyOutcome plain = run(with(whole, false), device::Kind::cuda, session());
  (void)run(first, device::Kind::cuda, session());
  const test::TinyOutcome rest = run(second, device::Kind::cuda, session());
  BOOST_TEST((rest.state == plain.state));
  BOOST_TEST(rest.losses.back() == plain.losses.back());
  BOOST_TEST(rest.launches.recordings > 0);
}
