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

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/common/check_weights.hpp"
#include "apps/common/machines.hpp"
#include "apps/common/open_datasets.hpp"
#include "apps/common/start_model.hpp"
#include "compile_attention.hpp"
#include "next_steps.hpp"
#include "options.hpp"
#include "planned_run.hpp"
#include "run_config.hpp"
#include "save_model_folder.hpp"
#include "settle_attention.hpp"
#include "sft/check/check_machine.hpp"
#include "sft/check/measure_machine.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/comm/collectives.hpp"
#include "sft/comm/session.hpp"
#include "sft/comm/watch.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/core/activity.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/core/stop_signals.hpp"
#include "sft/device/factory.hpp"
#include "sft/device/ledger.hpp"
#include "sft/hub/folder.hpp"
#include "sft/io/files.hpp"
#include "sft/machine/gpus.hpp"
#include "sft/machine/node.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/ops/factory.hpp"
#include "sft/plan/async_save.hpp"
#include "sft/plan/datasets.hpp"
#include "sft/plan/hardware.hpp"
#include "sft/plan/memory.hpp"
#include "sft/plan/pieces.hpp"
#include "sft/plan/row_lengths.hpp"
#include "sft/plan/search.hpp"
#include "sft/plan/sp_method.hpp"
#include "sft/plan/start_table.hpp"
#include "sft/plan/step_time.hpp"
#include "sft/train/choose_device.hpp"
#include "sft/train/console.hpp"
#include "sft/train/engine.hpp"
#include "sft/train/matmul_choice.hpp"
#include "sft/train/trainer.hpp"

namespace {

using namespace sft;

void require_one_rank(const comm::Group& world, const char* option) {
  if (world.size() == 1) return;
  throw comm::SharedError(ExitStatus::configuration, fmt::format("{} was started on {} ranks", option, world.size()),
                          "one rank plans for all", "start it without mpirun, with --num_ranks for their number");
}

/// What a run is planned on.
struct Ground {
  comm::Session& session;
  const config::ValidConfig& config;
  device::Device& device;
  const comm::Transport& transport;
  comm::Watch& watch;
  const mesh::Place& place;
  const mesh::Groups& groups;
};

/// The machine of this run, once all that CUDA's libraries take at the start is taken, and before the arenas are.
plan::Machine machine_of(const Ground& on, const std::optional<device::OwnMemory>& own) {
  return {.kind = on.device.kind(),
          .num_threads = machine::num_threads(),
          .huge_page_bytes = machine::unasked_huge_page_bytes(),
          .gpu_process_bytes = own ? own->used_bytes + plan::later_gpu_bytes : 0,
          .node_shared_bytes = apps::ModelFolder::shared_bytes(*on.config),
          .is_first_of_node = on.session.node().rank() == 0};
}

/// Answers --dry-run and --compile-attention; false: there is a run to do, or to check.
bool answer(const apps::SftOptions& command, const comm::Group& world) {
  switch (command.action) {
    case apps::SftOptions::Action::run:
    case apps::SftOptions::Action::check:
      return false;
    case apps::SftOptions::Action::print_config:  // answered before MPI started
      break;
    case apps::SftOptions::Action::dry_run:
      require_one_rank(world, "--dry-run");
      apps::print_dry_run(apps::read_config(command, world), command);
      break;
    case apps::SftOptions::Action::compile_attention:
      require_one_rank(world, "--compile-attention");
      apps::compile_attention(apps::read_config(command, world), command);
      break;
  }
  return true;
}

/// The weights of the model that the configuration names; none: the run begins with random ones. Rank 0 looks for them.
/// Collective.
std::optional<train::StartWeights> start_weights(const config::Config& config, const comm::Group& world,
                                                 train::Engine& engine, device::Device& device) {
  const config::Model& model = config.model;
  if (model.model_name_or_path.empty()) return std::nullopt;
  apps::StartModel start;
  world.agree([&] {
    if (world.rank() != 0) return;
    start = apps::find_start_model(model);
    std::error_code ignored;
    if (config.leaves_model_folder() &&
        std::filesystem::equivalent(start.folder, apps::ModelFolder::folder_of(config), ignored)) {
      throw comm::SharedError(ExitStatus::configuration, "the run would replace the model that it begins with",
                              fmt::format("it leaves its own in {}", apps::ModelFolder::folder_of(config)),
                              "set another train.output_dir, or checkpoint.save_hub_model = false");
    }
  });
  world.broadcast(start.folder, 0);
  if (world.rank() != 0) {
    start.kind = hub::is_model_folder(start.folder) ? apps::StartModel::Kind::hub : apps::StartModel::Kind::checkpoint;
  }
  const auto load = [start, &config, &world, &engine, &device](const checkpoint::State& weights) -> std::string {
    const bool stay_frozen = config.lora.use_peft;
    checkpoint::SeenWeights seen(/*takes_fingerprint=*/stay_frozen);
    apps::load_start_weights(start, config.model, world, weights, device, engine.stream(), seen);
    return stay_frozen ? seen.fingerprint(world) : "";
  };
  return train::StartWeights{start.folder, load};
}

/// Ranks on the node that has the fewest. Collective.
int least_ranks_per_node(const comm::Session& session) {
  std::array<std::int64_t, 1> negative{-session.node().size()};
  session.world().max(std::span<std::int64_t>(negative));
  return static_cast<int>(-negative[0]);
}

std::unique_ptr<comm::Collectives> make_collectives(const Ground& on) {
  const config::ValidConfig& config = on.config;
  return comm::make_collectives(on.device,
                                on.groups.of_tensors({.max_ctas = config->device.max_ctas(),
                                                      .exchanges_matrices = config->optimizer.needs_whole_matrices(),
                                                      .rounds_gradients = config->parallel.reduce_dtype == DType::bf16,
                                                      .rounds_tp_sums = config->parallel.tp_reduce == DType::bf16}),
                                on.transport);
}

/// The nodes of this run as plans see them; with `name` at the rates of that machine, else at those of the one that is
/// nearest by kind. On rank 0.
plan::Hardware hardware_of(const Ground& on, const std::string& name, const std::optional<device::OwnMemory>& own) {
  const bool is_gpu = on.device.kind() == device::Kind::cuda;
  const int ranks_per_node = on.session.node().size(), num_ranks = on.session.world().size();
  plan::Hardware hardware = plan::with_ranks_per_node(apps::machine_named(!name.empty() ? name
                                                                          : is_gpu      ? "h100"
                                                                                        : "cpu"),
                                                      ranks_per_node);
  if ((hardware.kind == device::Kind::cuda) != is_gpu) {
    throw_config_error(fmt::format("--machine {} is another machine", name),
                       is_gpu ? "this run computes on GPUs" : "this run computes on CPUs",
                       "give a file that `sft --check --write_machine FILE` wrote here");
  }
  hardware.num_nodes = (num_ranks + ranks_per_node - 1) / ranks_per_node;
  if (own) hardware.device_bytes = own->total_bytes;
  if (const auto bytes = machine::node_memory_bytes()) hardware.node_bytes = *bytes;
  return hardware;
}

/// The time of a step on the machine that the command line names. On rank 0.
std::optional<plan::StepTime> planned_time(const Ground& on, const config::ValidConfig& config,
                                           const plan::Datasets& datasets, const plan::Machine& machine,
                                           const std::optional<plan::Hardware>& hardware) {
  if (!hardware) return std::nullopt;
  const std::vector<std::int32_t> documents =
      plan::mean_documents(plan::RowLengths::of(datasets.train), config->train.per_device_train_batch_size);
  return plan::plan_step_time(config, documents, on.place, machine, *hardware);
}

/// The nearest way to train on this machine that fits, in words; empty: there is none. On rank 0.
std::string nearest_fitting(const Ground& on, const config::ValidConfig& config, const plan::Datasets& datasets,
                            const std::string& machine_name, const std::optional<device::OwnMemory>& own) {
  plan::PlanTask task{.base = *config,
                      .fixed = {},
                      .hardware = hardware_of(on, machine_name, own),
                      .max_length = datasets.train.max_length(),
                      .rows_per_step = config->effective_batch_rows(),
                      .lengths = plan::RowLengths::of(datasets.train),
                      .num_threads = machine::num_threads(),
                      .huge_page_bytes = machine::unasked_huge_page_bytes(),
                      .process_bytes = apps::own_bytes(datasets)};
  task.measured_limits = [&](const config::ValidConfig& other) { return plan::measure_limits(other, datasets); };
  const std::optional<plan::NearbyPlan> nearest = plan::nearest_plan(task, config);
  return nearest ? plan::describe(*nearest, task.hardware) : "";
}

/// Plans the run and does it, without going on from one of `damaged`. Nothing where it met another damaged checkpoint,
/// which is among them then, and the run is to be planned anew, from where the one before leaves it. Collective.
std::optional<ExitStatus> plan_and_run(const Ground& on, const std::string& machine_name,
                                       std::vector<std::string>& damaged) {
  const comm::Group& world = on.session.world();
  device::Device& device = on.device;
  const mesh::Place& place = on.place;
  const std::unique_ptr<comm::Collectives> collectives = make_collectives(on);

  // 4. Data
  const plan::Datasets datasets = apps::share_datasets(on.config, place, world, damaged);

  // 5. Memory: planned, with the way of attending over the sequence and the pieces that follow from it, and refused
  // where a node or a GPU does not have it
  const std::optional<device::OwnMemory> own_memory = device.own_memory();
  const plan::Machine machine = machine_of(on, own_memory);
  const auto plan_ledger = [&](const config::ValidConfig& planned) {
    return plan::plan_ledger(planned, datasets, place, machine, apps::own_bytes(datasets));
  };
  const std::optional<std::size_t> node_bytes = machine::node_memory_bytes();
  const auto choose_save = [&](const config::ValidConfig& of) {
    return plan::choose_async_save(of, plan_ledger, device.kind(), node_bytes, on.session);
  };
  const plan::Fits fits = [&](const config::ValidConfig& of) {
    device::Ledger needed;
    if (of->checkpoint.async) {  // given: refused, if need be, once all else is chosen
      world.agree([&] { needed = plan_ledger(of); });
    } else {
      needed = choose_save(of).planned;
    }
    return plan::fits_memory(needed, device.kind(), node_bytes, own_memory, on.session);
  };
  auto [config, sp_choice] = plan::resolve_sp_method(
      on.config, plan::SpFacts::of(on.config, datasets, least_ranks_per_node(on.session)), fits);
  config = apps::settle_attention(config, datasets.limits(config).tokens, device, world);
  auto [in_pieces, choice_of_pieces] = plan::choose_pieces(config, fits);
  if (!choice_of_pieces.empty()) log_info(choice_of_pieces);
  auto [with_async, save_choice, planned] = choose_save(in_pieces);
  config = std::move(with_async);
  const auto advice = [&, &config = config] { return nearest_fitting(on, config, datasets, machine_name, own_memory); };
  plan::require_node_memory(planned, device.kind(), node_bytes, on.session, advice);
  plan::require_gpu_memory(planned, own_memory, world, advice);
  std::optional<plan::Hardware> hardware;
  std::optional<plan::StepTime> step_time;
  world.agree([&, &config = config] {
    if (world.rank() != 0 || machine_name.empty()) return;
    hardware = hardware_of(on, machine_name, own_memory);
    step_time = planned_time(on, config, datasets, machine, hardware);
  });

  // Before the arenas take the GPU's memory
  const train::MatmulChoice matmul(config, datasets.limits(config), place, machine, device, world);

  // 6. Model, its shards and its optimizer: all memory of the run, entered in the ledger
  device::Ledger ledger;
  ledger.add(device::Label::process, device::Space::device, machine.gpu_process_bytes);
  ledger.add(device::Label::communication, device::Space::host, machine.first_rank_bytes());
  train::Engine engine(config, datasets.limits(config), place, on.groups, device, *collectives, ledger,
                       matmul.algorithms());

  // 7. Restore
  const std::optional<train::StartWeights> start = start_weights(config, world, engine, device);
  Markup markup;
  world.agree([&] {
    if (world.rank() == 0) markup = datasets.train.markup();
  });
  apps::ModelFolder model_folder(config, datasets.train.max_length(), std::move(markup), engine, world,
                                 on.session.node());
  const bool is_saved_always = config->checkpoint.save_hub_model == config::HubModel::every_save;
  train::Trainer trainer(
      {on.session, config, device, place, on.groups, datasets, ledger, engine, damaged, start ? &*start : nullptr,
       is_saved_always ? &model_folder : nullptr, sp_choice, save_choice, &on.watch, step_time ? step_time->step_s : 0,
       step_time ? plan::describe(*step_time, *hardware) : "", step_time ? plan::describe_ops(*step_time) : ""});
  if (trainer.restore() == train::Trainer::Restored::needs_other_plan) return std::nullopt;
  world.agree([&, &config = config] {
    if (world.rank() != 0) return;
    matmul.keep(config->train.output_dir);
    for (const char* name : {"/model", "/adapter"}) hub::NewFolder::recover(config->train.output_dir + name);
  });
  set_log_times(!train::is_terminal());
  trainer.announce();
  for (const std::string& tracker : apps::tracker_commands(config->train)) {
    log_info("metrics: in another terminal, " + tracker);
  }

  // 8. Train and evaluate
  const ExitStatus status = trainer.train();

  // 9. Save; what a finished run leaves beside its checkpoints may be of the best one
  trainer.save();
  const Activity saving(ActivityKind::saves, "saving the model");
  if (status == ExitStatus::done) trainer.load_best();
  const bool leaves_folder = config->leaves_model_folder() || config->lora.use_peft;
  if (status == ExitStatus::done && leaves_folder && !model_folder.is_written()) {
    model_folder.save(device, engine.stream());
  }
  ignore_stop_signals(static_cast<int>(status));

  // 10. What came of it
  std::vector<std::string> next;
  world.agree([&, &config = config] {
    if (world.rank() == 0) next = apps::next_steps(config, status, trainer.saved());
  });
  trainer.summarize(status, next);
  return status;
}

/// Measures the machine and writes it to a file that --machine reads. Collective.
void write_machine(const check::CheckedMachine& checked, const std::string& file, double start_s) {
  const std::string parent = std::filesystem::path(file).parent_path().string();
  plan::Hardware machine = check::measure_machine(checked, parent.empty() ? "." : parent, start_s);
  machine.name = std::filesystem::path(file).stem().string();
  checked.groups.world.agree([&] {
    if (checked.groups.world.rank() != 0) return;
    io::write_file_atomically(file, plan::to_ini(machine));
    log_info(fmt::format("\nwrote {}: plans of time read it as --machine {}", file, file));
  });
}

int run(comm::Session& session, const apps::SftOptions& command) {
  // 1. Configuration
  const comm::Group& world = session.world();
  if (answer(command, world)) return static_cast<int>(ExitStatus::done);
  const config::ValidConfig config = apps::read_config(command, world);

  // 2. Device
  const auto [kind, gpu] = train::choose_device(config->device, session);
  std::unique_ptr<device::Device> device;
  comm::Transport transport;
  world.agree([&, kind = kind, gpu = gpu] {
    transport = train::transport_of(config->device, kind);
    train::require_fitting_device(config, kind, gpu.compute_capability);
    if (kind == device::Kind::cuda && config->train.fp8 == config::Fp8::blockwise) ops::require_fp8_tiles();
    device = device::make_device(
        kind, {.num_local_ranks = session.node().size(), .gpu = gpu.index, .num_sharing = gpu.num_sharing});
  });

  // 3. Mesh: this rank's place in it, and every communicator of the run; who looks after it
  comm::Watch watch(session, config->device.comm_timeout_s, config->train.output_dir);
  const mesh::Place place(config, WorldRank::from(world.rank()));
  const mesh::Groups groups(world, place, plan::sharing_of(config, kind));
  const Ground on{session, config, *device, transport, watch, place, groups};
  if (command.action == apps::SftOptions::Action::check) {
    const std::unique_ptr<comm::Collectives> collectives = make_collectives(on);
    const double start_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count() -
                           process_start_time_s();
    const check::CheckedMachine machine{session, config, *device, place, groups, *collectives, transport.way};
    check::check_machine(machine);
    if (!command.machine_file.empty()) write_machine(machine, command.machine_file, start_s);
    return static_cast<int>(ExitStatus::done);
  }

  std::vector<std::string> damaged;
  while (true) {
    if (const auto status = plan_and_run(on, command.machine, damaged)) return static_cast<int>(*status);
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
    if (!asked || asked->action != apps::SftOptions::Action::print_config) {
      command = asked;
    } else if (log_rank() == 0) {
      log_info(config::to_ini(apps::printed_config(*asked)));
    }
  });
  if (!command) return status;
  return comm::run_program(argc, argv, [&](comm::Session& session) { return run(session, *command); });
}
