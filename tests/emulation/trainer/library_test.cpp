// SPDX-License-Identifier: Apache-2.0
// Attention of cuDNN where ranks exchange heads, or keys go round a ring: a run trains as with this program's kernels,
// and the library does each backward pass whose forward pass it does.

#include <algorithm>
#include <cmath>
#include <vector>

#include "sft/ops/factory.hpp"
#include "support/mpi_session.hpp"
#include "tiny_run.hpp"

namespace {

using namespace sft;
using config::ActivationCheckpointing;
using config::Precision;
using config::SpMethod;
using test::Family;
using test::session;
using test::TinyRun;

struct Run {
  TinyRun tiny;
  int forward = 1, backward = 1;  ///< how many passes of each kind the library does, as a ratio
};

/// Key/value heads for each rank (llama, qwen2 over 2) and replicas (qwen3, gemma3; llama over 4), windows (gemma3).
const std::vector<Run> runs{
    // 2 ranks
    {{.layout = {1, 1, 2, 1}, .family = Family::llama, .sp_method = SpMethod::ulysses}},
    {{.layout = {1, 1, 2, 1}, .family = Family::qwen2, .sp_method = SpMethod::ulysses}},
    {{.layout = {1, 1, 2, 1}, .family = Family::qwen3, .sp_method = SpMethod::ulysses}},
    {{.layout = {1, 1, 2, 1}, .family = Family::gemma3, .sp_method = SpMethod::hybrid, .ulysses_size = 2}},
    {{.layout = {1, 1, 2, 1},
      .family = Family::llama,
      .sp_method = SpMethod::ulysses,
      .checkpointing = ActivationCheckpointing::full,
      .head_groups = 2},
     3,
     2},  // the last block's activations are kept
    {{.layout = {1, 1, 2, 1}, .family = Family::llama, .sp_method = SpMethod::ring}},
    {{.layout = {1, 1, 2, 1}, .family = Family::gemma3, .sp_method = SpMethod::ring, .cuda_graphs = true}},
    // So long that it does keys of other ranks, too.
    {{.layout = {1, 1, 2, 1},
      .family = Family::qwen3,
      .sp_method = SpMethod::ring,
      .max_length = 640,
      .fills_rows = true}},
    // 4 ranks
    {{.layout = {1, 1, 4, 1}, .family = Family::llama, .sp_method = SpMethod::ulysses}},
    {{.layout = {1, 1, 2, 2}, .family = Family::llama, .sp_method = SpMethod::ulysses}},
    {{.layout = {1, 2, 2, 1}, .family = Family::gemma3, .sp_method = SpMethod::ulysses}},
    {{.layout = {1, 1, 4, 1}, .family = Family::llama, .sp_method = SpMethod::ring}},
    {{.layout = {1, 1, 4, 1}, .family = Family::llama, .sp_method = SpMethod::hybrid, .ulysses_size = 2}},
};

double worst(const std::vector<double>& values, const std::vector<double>& wanted) {
  double most = 0.0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double distance = wanted[i] == values[i] ? 0.0 : std::abs(values[i] - wanted[i]) / std::abs(wanted[i]);
    most = std::max(most, std::isnan(distance) ? INFINITY : distance);
  }
  return most;
}

}  // namespace

// Both ways round to bf16 at other places, as in trainer_test.cpp.
BOOST_AUTO_TEST_CASE(a_library_trains_like_the_kernels) {
  if (!ops::find_attention_library().problem.empty()) return;  // a build without cuDNN
  for (const auto& [shape, forward, backward] : runs) {
    TinyRun tiny = shape;
    if (tiny.mesh().size() != session().world().size()) continue;
    tiny.head_dim = 16;  // a multiple of 16, which cuDNN's backward pass takes
    tiny.precision = Precision::bf16;
    tiny.accumulation = 3;
    tiny.evaluates = false;
    const test::TinyOutcome own = run(tiny, device::Kind::cuda, session());
    tiny.attention = config::AttentionChoice::cudnn;
    const test::TinyOutcome library = run(tiny, device::Kind::cuda, session());
    const double loss = worst(library.losses, own.losses), norm = worst(library.grad_norms, own.grad_norms);
    BOOST_TEST_MESSAGE(tiny.name() << ": loss " << loss << ", grad norm " << norm << ", "
                                   << library.library_calls.forward << " forward passes");
    BOOST_TEST_CONTEXT(tiny.name()) {
      BOOST_TEST(loss <= 3e-3);
      BOOST_TEST(norm <= 3e-2);
      BOOST_TEST((library.state != own.state));
      BOOST_TEST(own.library_calls.forward + own.library_calls.backward == 0);
      BOOST_TEST(library.library_calls.forward > 0);
      BOOST_TEST(library.library_calls.backward * forward == library.library_calls.forward * backward);
    }
  }
}
