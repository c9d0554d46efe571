// SPDX-License-Identifier: Apache-2.0
// What the processes of a run take of memory, beside what was planned for them. Sanitizers keep shadow memory of their
// own.

#include <boost/test/data/monomorphic.hpp>
#include <boost/test/data/test_case.hpp>
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <cstdlib>
#include <ostream>
#include <regex>
#include <string>
#include <vector>

#include "sft/config/values.hpp"
#include "sft/machine/node.hpp"
#include "sft/ops/factory.hpp"
#include "sft/rank/machine.hpp"
#include "support/awkward_data.hpp"
#include "support/packed_file.hpp"
#include "trainer/program.hpp"
#include "trainer/workshop.hpp"

namespace {

using namespace sft;
using test::check_done;
using test::everyday_cases;
using test::other_cases;
using test::run_cases;
using test::RunCase;
using test::Workshop;

constexpr double mib = 1 << 20;

/// What may be planned beyond a peak by chance alone: whether the system gives huge pages that were not asked for.
double chance_mib() { return static_cast<double>(rank::most_huge_pages * machine::unasked_huge_page_bytes()) / mib; }

void check_resident_memory(const RunCase& run) {
  const Workshop workshop;
  const auto enlarge = [](config::Config& config) {
    config.model.hidden_size = 192;  // large enough to use all scratch memory, as any model worth training
    config.model.intermediate_size = 768;
    config.model.num_hidden_layers = 4;
    config.checkpoint.save_steps = 2;  // so that lines are logged behind a save: copies take memory at the first one
  };
  for (const std::int64_t max_steps : {4, 8}) {  // the second run reads a checkpoint and writes two
    test::TrainerProgram program = workshop.start(run, "run", max_steps, "auto", enlarge);
    check_done(program, workshop, "run");
    const auto [least_mib, most_mib] = workshop.ledger_total_mib("run");
    const test::PeakBytes peak = test::read_peak_bytes(workshop.path("run"));
    BOOST_TEST(peak.least / mib >= 0.9 * (least_mib - chance_mib()));
    BOOST_TEST(peak.most / mib <= 1.1 * most_mib);
  }
}

struct SmallRun {
  const char* name;
  config::Parallel parallel;
  config::Precision precision;
  bool has_experts, has_adapters, adapts_experts;
  double least_share = 0.94;  ///< of what is planned, that the peak is
  /// Heads in two groups, which all else that may go with them is beside.
  config::Fp8 fp8 = config::Fp8::none;
  bool groups_heads = false;
  friend std::ostream& operator<<(std::ostream& out, const SmallRun& run) { return out << run.name; }
};

// Of such runs the code of products is a large part: adapters make many kinds of products, routing many numbers of
// rows.
const config::Parallel one_rank{.dp_shard_size = 1}, two_ranks{.dp_shard_size = 2};
const std::vector<SmallRun> small_runs{
    // Peaks of float32 runs were 37.5 to 38.1 MiB in 24 runs of the same numbers, 0.946 to 0.965 of what was planned.
    {"dense, float32", one_rank, config::Precision::fp32, false, false, false, 0.93},
    {"dense, bf16", one_rank, config::Precision::bf16, false, false, false},
    {"adapters, float32", one_rank, config::Precision::fp32, false, true, false, 0.93},
    {"adapters, bf16", one_rank, config::Precision::bf16, false, true, false},
    {"adapters, bf16, two ranks", two_ranks, config::Precision::bf16, false, true, false},
    {"experts, bf16", one_rank, config::Precision::bf16, true, false, false},
    // Peaks of these two were 48.5 to 50.0 and 53.0 to 54.9 MiB in nine runs of the same numbers, the lower ones beside
    // other programs: 0.944 to 0.98 of what was planned.
    {"experts, adapters beside them, bf16", one_rank, config::Precision::bf16, true, true, false, 0.93},
    {"experts, adapters of them, bf16", one_rank, config::Precision::bf16, true, true, true, 0.93},
    // Planned for an expert that is given every token of both ranks, in all sizes of pieces: routing is never so
    // uneven.
    {"experts over two ranks, bf16",
     {.dp_shard_size = 1, .ep_size = 2},
     config::Precision::bf16,
     true,
     false,
     false,
     0.92},
    // Its peak was 51.9 to 53.5 MiB in six runs of the same numbers, 0.944 to 0.963 of what was planned.
    {"experts, adapters of them, bf16, two ranks", two_ranks, config::Precision::bf16, true, true, true, 0.93},
    {"heads in groups, fp8, two ranks", two_ranks, config::Precision::fp32, false, false, false, 0.9,
     config::Fp8::blockwise, true},
    {"heads in groups, adapters with magnitudes, a ring of two ranks",
     {.dp_shard_size = 1, .sp_size = 2},
     config::Precision::fp32,
     false,
     true,
     false,
     0.9,
     config::Fp8::none,
     true},
};

/// The most that oneDNN and our kernels may use: all, and what other processors have.
const std::vector<std::string> instruction_sets{"ALL", "AVX512_CORE", "AVX2"};

}  // namespace

BOOST_AUTO_TEST_SUITE(memory)

BOOST_DATA_TEST_CASE(resident_memory_is_within_a_tenth_of_the_ledger, everyday_cases(), run) {
  check_resident_memory(run);
}

// What the ranks of a node share while they write a model folder together is in the ledger of the first one, and none's
// peak has it twice.
BOOST_AUTO_TEST_CASE(memory_that_ranks_share_for_a_model_folder_is_planned_once) {
  const Workshop workshop;
  const RunCase run{"tp 2", {.dp_shard_size = 1, .tp_size = 2}, config::Precision::fp32};
  test::TrainerProgram program = workshop.start(run, "run", 3, "none", [](config::Config& config) {
    config.model.hidden_size = 256;
    config.model.intermediate_size = 1024;
    config.model.num_hidden_layers = 5;
    config.checkpoint.save_steps = 1;
    config.checkpoint.save_hub_model = config::HubModel::every_save;
  });
  check_done(program, workshop, "run");
  const std::string log = workshop.log_of("run");
  std::smatch match;
  BOOST_TEST_REQUIRE(std::regex_search(log, match, std::regex("communication +([0-9.]+) MiB +([0-9.]+) MiB  rank 0")),
                     log);
  BOOST_TEST(std::stod(match[2]) - std::stod(match[1]) >= 15.9);  // they are rounded
  const test::PeakBytes peak = test::read_peak_bytes(workshop.path("run"));
  const auto [least_mib, most_mib] = workshop.ledger_total_mib("run");
  BOOST_TEST(peak.least / mib <= 1.1 * least_mib);
  BOOST_TEST(peak.most / mib <= most_mib);
  BOOST_TEST(peak.most / mib >= 0.8 * (most_mib - chance_mib()));
}

BOOST_DATA_TEST_CASE(small_runs_take_no_more_memory_than_planned,
                     boost::unit_test::data::make(small_runs) * instruction_sets, small, instruction_set) {
  const Workshop workshop;
  const RunCase run{small.name, small.parallel, small.precision};
  setenv("ONEDNN_MAX_CPU_ISA", instruction_set.c_str(), 1);
  constexpr std::int64_t max_steps = 60;  // for routing to give experts most numbers of rows that it can
  test::TrainerProgram program = workshop.start(run, "run", max_steps, "none", [&](config::Config& config) {
    config.checkpoint.save_strategy = config::SaveStrategy::no;
    if (small.has_experts) {
      config.model.num_experts = 8;
      config.model.num_experts_per_tok = 2;
      config.model.moe_intermediate_size = 64;
    }
    config.lora.use_peft = small.has_adapters;
    config.lora.lora_r = 4;
    config.train.fp8 = small.fp8;
    if (small.groups_heads) {
      config.lora.use_dora = small.has_adapters;
      config.train.activation_checkpointing = config::ActivationCheckpointing::full;
      config.train.attention_head_groups = 2;
      config.parallel.sp_method = config::SpMethod::ring;
    }
    if (!small.adapts_experts) return;
    config.lora.lora_dropout = 0;
    config.lora.lora_target_parameters = {"gate_up_proj", "down_proj"};
  });
  unsetenv("ONEDNN_MAX_CPU_ISA");
  check_done(program, workshop, "run");
  const test::PeakBytes peak = test::read_peak_bytes(workshop.path("run"));
  const auto [least_mib, most_mib] = workshop.ledger_total_mib("run");
  BOOST_TEST_MESSAGE(small << ", " << instruction_set << ": planned " << least_mib << " to " << most_mib
                           << " MiB, peak " << peak.least / mib << " to " << peak.most / mib << " MiB");
  BOOST_TEST(peak.most / mib <= most_mib);
  BOOST_TEST(peak.least / mib <= least_mib);
  // Plans for processors that do not multiply bf16 numbers as such are rougher.
  const bool is_rough = instruction_set != "ALL" || !ops::cpu_multiplies_bf16();
  BOOST_TEST(peak.most / mib >= (is_rough ? 0.9 : small.least_share) * (most_mib - chance_mib()));
}

// oneDNN's products below AVX-512 allocate copies of their operands on every thread, of other sizes for every shape.
BOOST_AUTO_TEST_CASE(threads_without_avx512_do_not_take_more_than_the_ledger_says) {
  const Workshop workshop;
  test::write_packed_file(workshop.path("train.h5"), test::make_awkward_rows(31, 512, 3), test::small_vocab_size);
  setenv("OMP_NUM_THREADS", "4", 1);
  setenv("ONEDNN_MAX_CPU_ISA", "AVX2", 1);
  test::TrainerProgram program = workshop.start(run_cases[0], "run", 5, "none", [](config::Config& config) {
    config.model.hidden_size = 512;
    config.model.num_attention_heads = 8;
    config.model.num_key_value_heads = 2;
    config.model.head_dim = 64;
    config.model.intermediate_size = 2048;
    config.model.num_hidden_layers = 2;
    config.model.vocab_size = 8192;
  });
  unsetenv("ONEDNN_MAX_CPU_ISA");
  setenv("OMP_NUM_THREADS", "1", 1);
  check_done(program, workshop, "run");
  const double peak_mib = test::read_peak_bytes(workshop.path("run")).most / mib;
  const double planned_mib = workshop.ledger_total_mib("run").second;
  BOOST_TEST(peak_mib <= planned_mib);
  BOOST_TEST(peak_mib >= 0.9 * (planned_mib - chance_mib()));
}

BOOST_AUTO_TEST_SUITE_END()

BOOST_AUTO_TEST_SUITE(memory_on_other_meshes)

BOOST_DATA_TEST_CASE(resident_memory_is_within_a_tenth_of_the_ledger, other_cases(), run) {
  check_resident_memory(run);
}

BOOST_AUTO_TEST_SUITE_END()
