// SPDX-License-Identifier: Apache-2.0
// Fine-tunes a decoder language model on a DP x FSDP x SP x TP mesh of MPI ranks.
//
//   mpirun -np 16 ./sft inputs/demo.ini
//   mpirun -np 4 ./sft inputs/demo.ini --parallel.dp_replicate_size 1 --parallel.dp_shard_size 1
//   mpirun -np 16 ./sft inputs/demo.ini --checkpoint.resume_from_checkpoint auto
//   mpirun -np 16 ./sft inputs/demo.ini --check
//   ./sft --help
//
// Exit status: 0 done; 2 configuration; 3 data or checkpoint; 4 NaN or Inf; 75 stopped by a signal after saving, run
// again to go on; 76 a rank stood still, run again to go on; 1 anything else.

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "apps/common/open_datasets.hpp"
#include "check_run.hpp"
#include "finish_run.hpp"
#include "next_steps.hpp"
#include "options.hpp"
#include "planning.hpp"
#include "run_config.hpp"
#include "run_context.hpp"
#include "save_model_folder.hpp"
#include "settle_run.hpp"
#include "sft/config/parse.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/device/ledger.hpp"
#include "sft/hub/folder.hpp"
#include "sft/train/choose_device.hpp"
#include "sft/train/console.hpp"
#include "sft/train/matmul_choice.hpp"
#include "sft/train/trainer.hpp"
#include "start_weights.hpp"

namespace {

using namespace sft;
using Action = apps::SftOptions::Action;

/// Leaves in the output folder what the run goes on with, and says what it is. Collective over the world.
void announce(const apps::SettledRun& run, const train::MatmulChoice& matmul, const comm::Group& world,
              train::Trainer& trainer) {
  const config::Train& keys = run.config->train;
  world.agree([&] {
    if (world.rank() != 0) return;
    matmul.keep(keys.output_dir);
    for (const char* name : {"/model", "/adapter"}) hub::NewFolder::recover(keys.output_dir + name);
  });
  set_log_times(!train::is_terminal());
  trainer.announce();
  for (const std::string& tracker : apps::tracker_commands(keys)) {
    log_info("metrics: in another terminal, " + tracker);
  }
}

/// Plans the run and does it, without going on from one of `damaged`. Nothing where it met another damaged checkpoint,
/// which is among them then, and the run is to be planned anew, from where the one before leaves it. Collective.
std::optional<ExitStatus> plan_and_run(const apps::RunContext& on, const std::string& machine_name,
                                       std::vector<std::string>& damaged) {
  const comm::Group& world = on.session.world();
  const std::unique_ptr<comm::Collectives> collectives = on.make_collectives();

  // 4. Data
  const rank::Datasets datasets = apps::share_datasets(on.config, on.place, world, damaged);

  // 5. Memory: planned, with all that is auto; then products are measured, before the arenas take the GPU's memory
  const apps::SettledRun run = apps::settle_run(on, datasets, machine_name);
  const config::ValidConfig& config = run.config;
  const rows::MicroBatchLimits limits = datasets.limits(config);
  const train::MatmulChoice matmul(
      config, [&] { return apps::list_products(run, limits, on.place); }, on.device, world);

  // 6. Model, its shards and its optimizer: all memory of the run, entered in the ledger
  device::Ledger ledger;
  ledger.add(device::Label::process, device::Space::device, run.machine.gpu_process_bytes);
  ledger.add(device::Label::communication, device::Space::host, run.machine.first_rank_bytes());
  ledger.add(device::Label::process, device::Space::host, run.product_bytes);
  train::Engine engine(config, limits, on.place, on.groups, on.device, *collectives, ledger, matmul.algorithms());

  // 7. Restore
  const std::optional<train::StartWeights> start = apps::start_weights(config, world, engine, on.device);
  apps::ModelFolder folder(config, datasets.train, engine, world, on.session.node());
  const bool is_saved_always = config->checkpoint.save_hub_model == config::HubModel::every_save;
  train::Trainer trainer({on.session, config, on.device, on.place, on.groups, datasets, ledger, engine, damaged,
                          start ? &*start : nullptr, is_saved_always ? &folder : nullptr, run.sp_choice,
                          run.save_choice, &on.watch, run.step_s, run.step_time, run.ops, run.traffic});
  if (trainer.restore() == train::Trainer::Restored::needs_other_plan) return std::nullopt;
  announce(run, matmul, world, trainer);

  // 8. Train and evaluate
  const ExitStatus status = trainer.train();

  // 9. Save, and say what came of it
  apps::finish_run(status, run, on.device, world, engine, trainer, folder);
  return status;
}

ExitStatus run(comm::Session& session, const apps::SftOptions& command) {
  // 1. Configuration
  const comm::Group& world = session.world();
  const config::ValidConfig config = apps::read_config(command, world);
  if (command.plans_for_others()) {
    command.action == Action::dry_run ? apps::print_dry_run(config, command) : apps::compile_attention(config, command);
    return ExitStatus::done;
  }

  // 2. Device
  const train::OpenedDevice opened = train::open_device(config, session);

  // 3. Mesh: this rank's place in it, and every communicator of the run; who looks after it
  comm::Watch watch(session, config->device.comm_timeout_s, config->train.output_dir);
  const mesh::Place place(config, WorldRank::from(world.rank()));
  const mesh::Groups groups(world, place, rank::sharing_of(config, opened.device->kind()));
  const apps::RunContext on{session, config, *opened.device, opened.transport, watch, place, groups};
  if (command.action == Action::check) {
    apps::check_run(on, command.machine_file);
    return ExitStatus::done;
  }

  std::vector<std::string> damaged;
  while (true) {
    if (const auto status = plan_and_run(on, command.machine, damaged)) return *status;
    log_event("the run is planned anew: the checkpoint that it goes on from was written with another batch");
  }
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  sft::return_freed_memory();
  sft::raise_open_file_limit();
  std::optional<apps::SftOptions> command;  // none: all is said
  const int status = comm::run_before_mpi([&] {
    const auto asked = apps::read_sft_options(arguments);
    if (asked) apps::require_planner(*asked);
    if (!asked || asked->action != Action::print_config) {
      command = asked;
    } else if (log_rank() == 0) {
      log_info(config::to_ini(apps::printed_config(*asked)));
    }
  });
  if (!command) return status;
  return comm::run_program(argc, argv,
                           [&](comm::Session& session) { return static_cast<int>(run(session, *command)); });
}
