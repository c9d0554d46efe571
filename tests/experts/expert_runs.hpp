// SPDX-License-Identifier: Apache-2.0
#pragma once
// Some steps of a small model with experts, on a mesh and on one rank, as numbers to compare.

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "sft/comm/session.hpp"
#include "sft/config/config.hpp"
#include "support/engine_fixture.hpp"
#include "support/mesh.hpp"

namespace sft::test {

inline constexpr std::int64_t expert_max_length = 48, expert_global_rows = 8;

/// Three layers with 8 experts each, of which a token goes through 2, and an auxiliary loss.
[[nodiscard]] config::Model small_expert_model();

/// In float32; an update hangs on no element whose gradient is zero but for rounding.
[[nodiscard]] config::Config expert_config();

/// An optimizer whose state is of another form than a number for each element.
struct ExpertOptimizer {
  const char* name;
  config::OptimizerKind optim;
  std::int64_t moe_intermediate_size;
  double tolerance;  ///< of losses, as check_steps has it
  std::int64_t num_experts_per_tok = 2;

  void set(config::Config& config) const {
    config.optimizer.optim = optim;
    config.model.moe_intermediate_size = moe_intermediate_size;
    config.model.num_experts_per_tok = num_experts_per_tok;
  }
};
/// The bounds are those of tests/equivalence/equivalence.cpp, where they are explained. Muon makes every direction of a
/// matrix equally long, also those in which the few tokens of an expert have no gradient but rounding: with two of
/// eight experts one rank alone, with two micro-batches in place of one, is off by 1e-3 at the fifth step. So here
/// every token goes through all of them, each with its weight.
inline constexpr std::array expert_optimizers{
    ExpertOptimizer{"Adafactor", config::OptimizerKind::adafactor, 16, 1e-5},
    ExpertOptimizer{"Muon", config::OptimizerKind::muon, 16, 1e-4, 8},
    ExpertOptimizer{"8-bit AdamW", config::OptimizerKind::adamw_8bit, 128, 1e-4}};

/// Loss and gradient norm of each step, in turn.
using StepNumbers = std::vector<double>;

/// Trains steps [first, end) of rows of all kinds, in as many micro-batches as `config` says. `begun`: is called before
/// the first step, `ended` behind the last one. Collective over `mesh`.
[[nodiscard]] StepNumbers train_experts(
    config::Config config, const Mesh& mesh, const comm::Session& session, std::int64_t end, std::int64_t first = 0,
    const std::function<void(EngineFixture&)>& begun = [](EngineFixture&) {},
    const std::function<void(EngineFixture&)>& ended = [](EngineFixture&) {});

/// work() of rank 0, for all. Collective over the world.
[[nodiscard]] std::vector<double> by_first_rank(const comm::Session& session, std::size_t num_numbers,
                                                const std::function<std::vector<double>()>& work);

/// Relative; NaN is infinitely far.
[[nodiscard]] double relative_distance(double value, double expected);

/// Fails where a loss is further than `tolerance` from the expected one, or a norm further than ten times that.
void check_steps(const std::string& name, const StepNumbers& found, const StepNumbers& expected,
                 double tolerance = 1e-5);

}  // namespace sft::test
