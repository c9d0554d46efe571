// SPDX-License-Identifier: Apache-2.0
// The whole trainer on GPUs, emulated ones or with tests/device real ones, computes what it computes on CPUs: every
// stage of sharding, every way of attending over the sequence, every way of keeping activations, adapters, both
// precisions, NCCL, host copies and a CUDA-aware MPI.

#include <algorithm>
#include <cmath>
#include <vector>

#include "support/mpi_session.hpp"
#include "support/temporary_folder.hpp"
#include "tiny_run.hpp"

namespace {

using namespace sft;
using config::ActivationCheckpointing;
using config::OptimizerKind;
using config::Precision;
using config::SpMethod;
using test::Family;
using test::session;
using test::TinyRun;

/// Each way of cutting weights, rows and heads evaluates once, also with experts, with groups of heads and in each kind
/// of 8-bit floats; what differs from another one by its optimizer, or by its experts, does not.
const std::vector<TinyRun> runs{
    // 1 rank
    {.layout = {1, 1, 1, 1}, .family = Family::llama},
    {.layout = {1, 1, 1, 1}, .family = Family::qwen2, .accumulation = 2, .mlp_tile_tokens = 7},
    {.layout = {1, 1, 1, 1}, .family = Family::qwen3, .checkpointing = ActivationCheckpointing::selective},
    {.layout = {1, 1, 1, 1},
     .family = Family::qwen2,
     .checkpointing = ActivationCheckpointing::full,
     .offloads_activations = true},
    {.layout = {1, 1, 1, 1}, .family = Family::llama, .has_adapters = true, .accumulation = 2},
    {.layout = {1, 1, 1, 1}, .family = Family::llama, .precision = Precision::bf16},
    {.layout = {1, 1, 1, 1}, .family = Family::qwen3, .precision = Precision::pure_bf16},
    {.layout = {1, 1, 1, 1}, .family = Family::qwen2, .precision = Precision::bf16, .has_adapters = true},
    {.layout = {1, 1, 1, 1},
     .family = Family::qwen2,
     .optim = OptimizerKind::muon,
     .offload_optimizer = config::Offload::host,
     .accumulation = 2},
    {.layout = {1, 1, 1, 1},
     .family = Family::qwen2,
     .precision = Precision::bf16,
     .optim = OptimizerKind::muon,
     .offload_parameters = config::Offload::host},
    {.layout = {1, 1, 1, 1},
     .family = Family::qwen2,
     .precision = Precision::bf16,
     .optim = OptimizerKind::adamw_8bit,
     .offload_optimizer = config::Offload::host},
    {.layout = {1, 1, 1, 1},
     .family = Family::qwen2,
     .precision = Precision::bf16,
     .optim = OptimizerKind::adafactor,
     .offload_optimizer = config::Offload::host},
    // 2 ranks
    {.layout = {1, 2, 1, 1}, .family = Family::llama, .accumulation = 2},
    {.layout = {2, 1, 1, 1}, .family = Family::qwen2, .precision = Precision::bf16},
    {.layout = {1, 1, 2, 1}, .family = Family::qwen3},
    {.layout = {1, 1, 1, 2}, .family = Family::llama, .precision = Precision::bf16},
    {.layout = {1, 1, 1, 2},
     .family = Family::qwen2,
     .precision = Precision::bf16,
     .tp_reduce = DType::bf16,
     .tp_sequence_parallel = false,
     .evaluates = false,
     .max_length = 8},
    // 4 ranks
    {.layout = {2, 2, 1, 1}, .family = Family::qwen2, .zero_stage = 0, .accumulation = 2},
    {.layout = {1, 2, 1, 2}, .family = Family::llama, .zero_stage = 1, .accumulation = 2},
    {.layout = {1, 4, 1, 1}, .family = Family::qwen3, .zero_stage = 2, .accumulation = 2},
    {.layout = {1, 2, 2, 1}, .family = Family::qwen2, .zero_stage = 3, .sp_method = SpMethod::ring},
    {.layout = {1, 1, 4, 1}, .family = Family::llama, .sp_method = SpMethod::all_gather},
    {.layout = {1, 1, 4, 1}, .family = Family::llama, .sp_method = SpMethod::ulysses},
    {.layout = {1, 1, 4, 1}, .family = Family::qwen3, .sp_method = SpMethod::hybrid, .ulysses_size = 2},
    {.layout = {1, 1, 2, 2},
     .family = Family::qwen2,
     .checkpointing = ActivationCheckpointing::full,
     .has_adapters = true},
    {.layout = {1, 2, 2, 1},
     .family = Family::llama,
     .precision = Precision::bf16,
     .checkpointing = ActivationCheckpointing::selective},
    {.layout = {2, 1, 1, 2}, .family = Family::qwen3, .way = comm::Transport::Way::host_copy},
    {.layout = {1, 2, 2, 1}, .family = Family::qwen2, .zero_stage = 1, .way = comm::Transport::Way::host_copy},
    {.layout = {1, 2, 1, 2},
     .family = Family::llama,
     .precision = Precision::bf16,
     .reduce_dtype = DType::bf16,
     .tp_reduce = DType::bf16,
     .accumulation = 2,
     .evaluates = false,
     .max_length = 8},
    {.layout = {1, 2, 1, 2}, .family = Family::qwen2, .optim = OptimizerKind::muon, .evaluates = false},
    {.layout = {1, 2, 1, 2}, .family = Family::qwen2, .optim = OptimizerKind::adamw_8bit, .evaluates = false},
    {.layout = {1, 2, 1, 2}, .family = Family::qwen2, .optim = OptimizerKind::adafactor, .evaluates = false},
    // With experts, on one rank and on 4
    {.layout = {1, 1, 1, 1}, .family = Family::qwen3, .accumulation = 2, .num_experts = 4},
    {.layout = {1, 1, 1, 1},
     .family = Family::qwen3,
     .checkpointing = ActivationCheckpointing::full,
     .offloads_activations = true,
     .num_experts = 8},
    {.layout = {1, 1, 1, 1}, .ep_size = 4, .family = Family::qwen3, .num_experts = 8},
    {.layout = {1, 2, 1, 1},
     .ep_size = 2,
     .family = Family::qwen3,
     .precision = Precision::bf16,
     .checkpointing = ActivationCheckpointing::full,
     .num_experts = 4,
     .evaluates = false},
    {.layout = {1, 1, 2, 1},
     .ep_size = 2,
     .family = Family::qwen3,
     .checkpointing = ActivationCheckpointing::selective,
     .has_adapters = true,
     .num_experts = 8,
     .evaluates = false},
    {.layout = {1, 1, 1, 1}, .family = Family::qwen3, .has_adapters = true, .accumulation = 2, .num_experts = 4},
    // In 8-bit floats
    {.layout = {1, 1, 1, 1}, .family = Family::llama, .precision = Precision::bf16, .fp8 = config::Fp8::tensorwise},
    {.layout = {1, 1, 1, 1}, .family = Family::qwen3, .fp8 = config::Fp8::blockwise, .accumulation = 2},
    {.layout = {1, 2, 1, 1},
     .family = Family::llama,
     .fp8 = config::Fp8::tensorwise,
     .has_adapters = true,
     .accumulation = 2},
    {.layout = {1, 2, 1, 2}, .family = Family::qwen2, .fp8 = config::Fp8::tensorwise},
    {.layout = {1, 2, 1, 1},
     .ep_size = 2,
     .family = Family::qwen3,
     .fp8 = config::Fp8::tensorwise,
     .num_experts = 8,
     .evaluates = false},
    {.layout = {1, 2, 1, 1}, .family = Family::llama, .fp8 = config::Fp8::blockwise, .accumulation = 2},
    {.layout = {1, 2, 1, 1}, .family = Family::qwen2, .fp8 = config::Fp8::blockwise, .has_adapters = true},
    {.layout = {1, 2, 1, 2}, .family = Family::qwen2, .fp8 = config::Fp8::blockwise, .evaluates = false},
    {.layout = {1, 4, 1, 1},
     .family = Family::llama,
     .fp8 = config::Fp8::blockwise,
     .reshard_size = 2,
     .accumulation = 2,
     .evaluates = false},
    {.layout = {1, 1, 1, 1},
     .ep_size = 4,
     .family = Family::qwen3,
     .fp8 = config::Fp8::blockwise,
     .num_experts = 8,
     .evaluates = false},
    {.layout = {1, 1, 1, 1},
     .family = Family::qwen3,
     .precision = Precision::bf16,
     .fp8 = config::Fp8::blockwise,
     .accumulation = 2,
     .num_experts = 4},
    // Heads in two groups
    {.layout = {1, 1, 1, 1},
     .family = Family::qwen2,
     .fp8 = config::Fp8::blockwise,
     .checkpointing = ActivationCheckpointing::full,
     .head_groups = 2},
    {.layout = {1, 1, 1, 1},
     .family = Family::llama,
     .checkpointing = ActivationCheckpointing::full,
     .head_groups = 2,
     .has_adapters = true},
    {.layout = {1, 2, 1, 1},
     .family = Family::llama,
     .precision = Precision::bf16,
     .fp8 = config::Fp8::tensorwise,
     .checkpointing = ActivationCheckpointing::full,
     .head_groups = 2},
    {.layout = {1, 1, 2, 1},
     .family = Family::qwen2,
     .precision = Precision::bf16,
     .checkpointing = ActivationCheckpointing::full,
     .head_groups = 2},
    {.layout = {1, 1, 4, 1},
     .family = Family::qwen2,
     .sp_method = SpMethod::all_gather,
     .checkpointing = ActivationCheckpointing::full,
     .head_groups = 2},
    // 8 ranks
    {.layout = {2, 2, 2, 1}, .family = Family::qwen3},
    {.layout = {1, 2, 2, 2}, .family = Family::llama, .precision = Precision::bf16},
    // 16 ranks
    {.layout = {2, 2, 2, 2}, .family = Family::qwen2},
    {.layout = {1, 2, 4, 2}, .family = Family::llama, .sp_method = SpMethod::hybrid, .ulysses_size = 2},
};

/// On 4 ranks: what is in the others one by one, together. For the night, or for real GPUs.
const std::vector<TinyRun> further_runs{
    {.layout = {1, 1, 2, 2},
     .family = Family::llama,
     .precision = Precision::bf16,
     .optim = OptimizerKind::muon,
     .evaluates = false},
    {.layout = {1, 1, 1, 2},
     .ep_size = 2,
     .family = Family::qwen3,
     .zero_stage = 1,
     .accumulation = 2,
     .num_experts = 8,
     .way = comm::Transport::Way::host_copy},
    {.layout = {1, 1, 1, 2},
     .ep_size = 2,
     .family = Family::qwen3,
     .precision = Precision::bf16,
     .checkpointing = ActivationCheckpointing::full,
     .has_adapters = true,
     .num_experts = 8,
     .evaluates = false},
    {.layout = {1, 4, 1, 1},
     .family = Family::llama,
     .precision = Precision::bf16,
     .fp8 = config::Fp8::tensorwise,
     .reshard_size = 2,
     .accumulation = 2,
     .evaluates = false},
    {.layout = {1, 2, 2, 1}, .family = Family::qwen3, .precision = Precision::bf16, .fp8 = config::Fp8::blockwise},
    {.layout = {1, 2, 1, 1},
     .ep_size = 2,
     .family = Family::qwen3,
     .fp8 = config::Fp8::blockwise,
     .num_experts = 8,
     .evaluates = false},
    {.layout = {1, 1, 2, 1},
     .ep_size = 2,
     .family = Family::qwen3,
     .precision = Precision::bf16,
     .fp8 = config::Fp8::tensorwise,
     .num_experts = 8},
    {.layout = {1, 2, 2, 1},
     .family = Family::llama,
     .fp8 = config::Fp8::blockwise,
     .sp_method = SpMethod::ulysses,
     .checkpointing = ActivationCheckpointing::full,
     .head_groups = 2},
};

/// Whether weights may be gathered as 8-bit floats, and as numbers as well.
bool gathers_codes(const TinyRun& tiny) {
  return tiny.fp8 != config::Fp8::none && tiny.zero_stage == 3 && tiny.mesh()[Axis::dp_shard] > 1;
}

double worst(const std::vector<double>& values, const std::vector<double>& wanted) {
  double most = 0.0;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const double distance = wanted[i] == values[i] ? 0.0 : std::abs(values[i] - wanted[i]) / std::abs(wanted[i]);
    most = std::max(most, std::isnan(distance) ? INFINITY : distance);
  }
  return most;
}

// float32: products and sums run in another order than on the CPU, as they do on another mesh (tests/equivalence), and
// the bounds are those of there, ten times wider for Muon, which rounds the directions of matrices to bf16 and enlarges
// their last bits where a matrix has small singular values. bf16: the same inputs are rounded alike, but sums that come
// out on another side of a rounding boundary differ by 2^-8; both ways are as far from float32 as tests/equivalence
// allows, and so from each other. 8-bit floats beside float32: an emulated GPU sums as the CPU does, so that all codes
// and scales are the same, and only a real one may round to other codes. Beside bf16 other roundings become other
// codes, a step of fp8 apart: there the losses are held against those of fp8 in float32. They may be as far from them
// as bf16 alone, and as far again as rounding to fp8 moves those of float32: fewer codes change than are rounded.
void check_that_gpus_train_like_cpus(const std::vector<TinyRun>& tried) {
  const test::TemporaryFolder folder;
  for (TinyRun tiny : tried) {
    tiny.offload_folder = folder.path();
    if (tiny.mesh().size() != session().world().size()) continue;
    const test::TinyOutcome cpu = run(tiny, device::Kind::cpu, session());
    const test::TinyOutcome gpu = run(tiny, device::Kind::cuda, session());
    if (tiny.way == comm::Transport::Way::host_copy && comm::is_mpi_cuda_aware()) {
      TinyRun by_mpi = tiny;
      by_mpi.way = comm::Transport::Way::cuda_mpi;
      const test::TinyOutcome other = run(by_mpi, device::Kind::cuda, session());
      BOOST_TEST((other.losses == gpu.losses && other.grad_norms == gpu.grad_norms && other.state == gpu.state),
                 tiny.name() << ": a CUDA-aware MPI gives the same bits");
    }
    if (gathers_codes(tiny)) {
      // Shards that come from the node's memory are gathered as numbers.
      TinyRun as_numbers = tiny;
      as_numbers.offload_parameters = config::Offload::host;
      const test::TinyOutcome other = run(as_numbers, device::Kind::cuda, session());
      BOOST_TEST((other.losses == gpu.losses && other.grad_norms == gpu.grad_norms &&
                  other.evaluation == gpu.evaluation && other.state == gpu.state),
                 tiny.name() << ": codes that are gathered are those of gathered numbers");
    }
    const bool is_bf16 = tiny.precision != Precision::fp32, is_fp8 = tiny.fp8 != config::Fp8::none;
#ifdef SFT_REAL_GPU
    const bool is_float32 = !is_bf16 && !is_fp8;
#else
    const bool is_float32 = !is_bf16;
#endif
    const double float32_bound = tiny.optim == OptimizerKind::muon ? 1e-4 : 1e-5;
    const bool has_twin = is_bf16 && is_fp8;  // in float32
    TinyRun twin = tiny, unrounded = tiny;
    twin.precision = unrounded.precision = Precision::fp32;
    unrounded.fp8 = config::Fp8::none;
    const test::TinyOutcome exact = has_twin ? run(twin, device::Kind::cpu, session()) : cpu;
    const double effect_of_fp8 =
        has_twin ? worst(exact.losses, run(unrounded, device::Kind::cpu, session()).losses) : 0.0;
    const double loss = worst(gpu.losses, exact.losses), norm = worst(gpu.grad_norms, cpu.grad_norms),
                 evaluation = worst({gpu.evaluation}, {cpu.evaluation});
    BOOST_TEST_MESSAGE(tiny.name() << ": loss " << loss << " (fp8 " << effect_of_fp8 << "), grad norm " << norm
                                   << ", evaluation " << evaluation);
    BOOST_TEST_CONTEXT(tiny.name()) {
      BOOST_TEST(loss <= (is_float32 ? float32_bound : 3e-3 + effect_of_fp8));
      BOOST_TEST(norm <= (is_float32 ? 10 * float32_bound : 3e-2));
      BOOST_TEST(evaluation <= (is_float32 ? 10 * float32_bound : 3e-2));
    }
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(gpus_train_like_cpus) { check_that_gpus_train_like_cpus(runs); }

BOOST_AUTO_TEST_CASE(gpus_train_like_cpus_in_further_runs) { check_that_gpus_train_like_cpus(further_runs); }
