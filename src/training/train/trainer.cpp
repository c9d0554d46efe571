// SPDX-License-Identifier: Apache-2.0
#include "sft/train/trainer.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <functional>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "batches.hpp"
#include "best_model.hpp"
#include "evaluation.hpp"
#include "expected_attention.hpp"
#include "nan_policy.hpp"
#include "profile.hpp"
#include "rank_state.hpp"
#include "reports.hpp"
#include "run_files.hpp"
#include "saver.hpp"
#include "sft/comm/launcher.hpp"
#include "sft/config/parse.hpp"
#include "sft/config/values.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/core/stop_signals.hpp"
#include "sft/io/files.hpp"
#include "sft/rank/datasets.hpp"
#include "sft/rank/machine.hpp"
#include "sft/rank/nodes.hpp"
#include "sft/rank/run_length.hpp"
#include "sft/rank/save_time.hpp"
#include "sft/rank/start_table.hpp"
#include "sft/train/memory_peaks.hpp"
#include "summary.hpp"

namespace sft::train {

namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }
/// For other ranks, so far.
double seconds_waited() { return std::chrono::duration<double>(time_waited()).count(); }

/// The signal that asks this rank to stop, or 0. An output that nobody reads is SIGPIPE. Where it is mpirun's, that
/// would end all ranks at the next line, before they have saved, so nothing is printed any more.
int stop_signal(const StopSignals& signals) {
  if (signals.received() != 0 || log_rank() != 0) return signals.received();
  if (comm::is_output_closed()) return SIGPIPE;
  if (!comm::is_launcher_output_closed()) return 0;
  return std::freopen("/dev/null", "w", stdout) == nullptr ? 0 : SIGPIPE;
}

/// What the ledger of the fullest rank plans for the memory that peaks are of. Collective.
std::int64_t most_planned(const device::Ledger& ledger, device::Kind kind, const comm::Group& world) {
  const std::size_t elsewhere = kind == device::Kind::cuda ? ledger.node_bytes(kind) : 0;
  std::array<std::int64_t, 1> planned{static_cast<std::int64_t>(ledger.total_bytes() - elsewhere)};
  world.max(std::span<std::int64_t>(planned));
  return planned[0];
}

/// A number of a step that was left out.
constexpr double nothing = std::numeric_limits<double>::quiet_NaN();

void announce_first_forward_pass() {
  const double now_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  log_event("first forward pass " + format_seconds(now_s - process_start_time_s()) + " after the process started");
}

}  // namespace

Trainer::Trainer(const Run& run)
    : run_(run),
      positions_(rank::step_positions(run.config, run.datasets.train.num_rows(), run.datasets.origin)),
      last_step_(rank::num_steps(run.config, run.datasets.train.num_rows(), run.datasets.origin)),
      schedule_(run.config->optimizer, last_step_),
      saver_(std::make_unique<Saver>(run_)),
      goodput_(process_start_time_s()) {
  position_.num_rows = positions_.num_rows;
  position_.max_length = run.datasets.train.max_length();
  position_.row_order = rank::name_of(positions_.kind);
  run_.ledger.add(device::Label::batches, device::Space::host,
                  rank::batches_bytes(run.config, run.place, run.datasets));
  planned_memory_bytes_ = most_planned(run_.ledger, run_.device.kind(), run_.groups.world);
}

Trainer::~Trainer() = default;

const std::string& Trainer::saved() const { return saver_->saved_folder(); }

void Trainer::announce() const {
  const IndexedVector<WorldRank, int> nodes = rank::nodes_of_ranks(run_.session);
  const mesh::Layout& layout = run_.place.layout();
  log_info(rank::start_table({.config = run_.config,
                              .kind = run_.device.kind(),
                              .datasets = run_.datasets,
                              .num_parameters = run_.engine.num_parameters(),
                              .nodes = rank::describe_nodes(layout, nodes),
                              .device = rank::describe_device(run_.device),
                              .origin = origin_,
                              .sp_choice = run_.sp_choice,
                              .num_steps = last_step_,
                              .memory = rank::gather_memory(run_.ledger, run_.device.kind(), run_.groups.world),
                              .traffic = run_.traffic,
                              .repeats_launches = run_.engine.repeats_launches(),
                              .offloaded_bytes = run_.engine.offloaded_bytes(),
                              .activation_file_bytes = run_.engine.activation_file_bytes(),
                              .save = rank::describe(rank::save_time(run_.engine.state().entries())),
                              .save_choice = run_.save_choice,
                              .step_time = run_.step_time,
                              .ops = run_.ops}));
  if (const std::string warning = rank::warning_of_mesh(run_.config->parallel); !warning.empty()) log_warning(warning);
  if (layout.axes_between_nodes(nodes).contains(Axis::tp)) {
    log_warning(
        "tp goes between nodes (its ranks sum activations several times in every block, which needs the speed of one "
        "node): make tp_size divide the number of ranks per node");
  }
}

void Trainer::count(const StepResult& result) {
  ++position_.step;
  position_.rows_consumed = positions_.begin(position_.step);
  position_.epoch = rank::epochs_after(position_.step, positions_);
  if (!result.left_out.empty()) {
    count_skipped(run_.config->train, position_.step, result.left_out, position_.decisions);
    return;
  }
  position_.decisions.num_skipped_in_a_row = 0;
  position_.num_tokens += result.num_tokens;
  position_.num_target_tokens += result.num_target_tokens;
  checkpoint::LogWindow& window = position_.since_log;
  ++window.num_steps;
  window.loss += result.loss;
  window.mean_token_accuracy += result.mean_token_accuracy;
  window.entropy += result.entropy;
  if (position_.num_target_tokens == 0 &&
      (position_.rows_consumed >= position_.num_rows || position_.step == last_step_)) {
    throw comm::SharedError(ExitStatus::data, "nothing was trained on",
                            "no token of the " + std::to_string(position_.rows_consumed) + " rows up to step " +
                                std::to_string(position_.step) + " has a loss_weight",
                            "prepare them again; see --completion_only_loss and --assistant_only_loss of sft-prepare");
  }
  if (result.loss == 0.0 && !has_told_of_zero_loss_) {
    has_told_of_zero_loss_ = true;
    log_warning("the loss of step " + std::to_string(position_.step) + " is exactly 0: " +
                (result.num_target_tokens == 0
                     ? "no token of its rows has a loss_weight, so that it teaches nothing"
                     : "each of its " + std::to_string(result.num_target_tokens) +
                           " targets is predicted with certainty; look at the data with sft-prepare --preview"));
  }
}

StepMetrics Trainer::measure(const StepResult& result, double learning_rate, double step_time_s) const {
  const bool is_done = result.left_out.empty();
  StepMetrics metrics;
  metrics.step = position_.step;
  metrics.epoch = position_.epoch;
  metrics.loss = is_done ? result.loss : nothing;
  metrics.grad_norm = is_done ? result.grad_norm : nothing;
  metrics.learning_rate = learning_rate;
  metrics.num_tokens = position_.num_tokens;
  metrics.num_target_tokens = position_.num_target_tokens;
  metrics.mean_token_accuracy = is_done ? result.mean_token_accuracy : nothing;
  metrics.entropy = is_done ? result.entropy : nothing;
  if (result.routers) {
    metrics.aux_loss = is_done ? result.routers->aux_loss : nothing;
    metrics.expert_imbalance = is_done ? result.routers->expert_imbalance : nothing;
  }
  metrics.step_loss = metrics.loss;
  metrics.num_skipped_steps = position_.decisions.num_skipped_steps;
  metrics.step_num_tokens = result.num_tokens;
  metrics.step_num_target_tokens = result.num_target_tokens;
  metrics.step_time_s = step_time_s;
  metrics.resumed_step = resumed_step_;
  const config::Fp8 fp8 = run_.config->train.fp8;
  if (fp8 != config::Fp8::none) metrics.fp8 = config::write(fp8);
  if (const double peak_tflops = run_.config->device.peak_tflops; peak_tflops > 0) {
    metrics.mfu = result.model_flops / step_time_s / (1e12 * peak_tflops * run_.groups.world.size());
  }
  return metrics;
}

void Trainer::close_window(StepMetrics& metrics) {
  const checkpoint::LogWindow& window = position_.since_log;
  const auto mean_of = [&](double sum) {
    return window.num_steps > 0 ? sum / static_cast<double>(window.num_steps) : nothing;
  };
  metrics.loss = mean_of(window.loss);
  metrics.mean_token_accuracy = mean_of(window.mean_token_accuracy);
  metrics.entropy = mean_of(window.entropy);
  metrics.save_stall_s = saver_->take_stall_s();
  metrics.peak_memory = gather_memory_peaks(run_.device, run_.session);
  metrics.planned_memory_bytes = planned_memory_bytes_;
  if (run_.planned_step_s > 0) metrics.planned_step_time_s = run_.planned_step_s;
  const SlowestRankWatch::Finding finding =
      slowest_.close(run_.groups.world, /*sees_waits=*/run_.device.kind() == device::Kind::cpu);
  metrics.slowest = finding.slowest;
  if (!finding.warning.empty()) log_warning(finding.warning);
  metrics.time = goodput_.note(Goodput::now(), position_.step);
  position_.since_log = {};
  resumed_step_.reset();
}

bool Trainer::is_evaluation_step(std::int64_t step) const {
  const config::Train& train = run_.config->train;
  const bool is_by_epochs = train.eval_strategy == config::EvalStrategy::epoch;
  const std::int64_t passed = is_by_epochs ? positions_.begin(step) / positions_.num_rows : step;
  if (static_cast<double>(passed) < train.eval_delay) return false;
  if (is_by_epochs) return rank::is_epoch_end(step, positions_);
  return train.eval_strategy == config::EvalStrategy::steps && step > 0 && rank::is_due(step, train.eval_interval());
}

bool Trainer::is_evaluation_due() const {
  const std::int64_t step = position_.step;
  const config::Train& train = run_.config->train;
  if (!run_.datasets.eval || position_.evaluated_step == step) return false;
  if (step == 0 && train.eval_on_start) return true;
  return step >= last_step_ ? train.eval_strategy != config::EvalStrategy::no : is_evaluation_step(step);
}

bool Trainer::is_save_due() const {
  const config::Checkpoint& checkpoint = run_.config->checkpoint;
  switch (checkpoint.save_strategy) {
    case config::SaveStrategy::no:
      return false;
    case config::SaveStrategy::steps:
      return rank::is_due(position_.step, checkpoint.save_steps);
    case config::SaveStrategy::epoch:
      return rank::is_epoch_end(position_.step, positions_);
    case config::SaveStrategy::best:
      break;
  }
  return is_best_;
}

bool Trainer::has_steps() const {
  return position_.step < last_step_ && !must_stop_early(run_.config->train, position_.decisions);
}

int Trainer::evaluate(Progress& progress) {
  const auto start = Clock::now();
  progress.begin_evaluation(run_.datasets.eval->num_rows());
  const auto before_batch = [&](std::int64_t done, std::int64_t all) {
    progress.show_evaluation(done, all);
    return signals_ ? stop_signal(*signals_) : 0;
  };
  const Evaluation evaluation =
      device::timed(run_.device.timeline(), {.category = "evaluation", .what = "evaluation"}, [&] {
        return train::evaluate(run_.engine, *run_.datasets.eval,
                               rank::eval_loader_plan(run_.config, run_.place, run_.datasets), position_.step,
                               run_.groups, before_batch);
      });
  const auto& [signal, result] = evaluation;
  goodput_.add_evaluation(seconds_since(start));
  if (signal != 0) return signal;
  position_.evaluated_step = position_.step;
  const config::Train& train = run_.config->train;
  if (is_evaluation_step(position_.step)) {
    schedule_.observe(value_of(train.metric_for_best_model.value_or(config::EvalMetric::loss), result));
  }
  if (position_.step > 0) is_best_ = judge(train, result, position_.step, position_.decisions);
  position_.schedule = schedule_.state();
  const EvalMetrics metrics{.step = position_.step,
                            .epoch = position_.epoch,
                            .loss = result.loss,
                            .mean_token_accuracy = result.mean_token_accuracy,
                            .entropy = result.entropy,
                            .num_target_tokens = result.num_target_tokens,
                            .time_s = seconds_since(start)};
  progress.log(metrics);
  append(metrics);
  return 0;
}

int Trainer::evaluate_or_save(Progress& progress) {
  try {
    return evaluate(progress);
  } catch (const comm::SharedError& error) {
    progress.finish();
    if (error.status() == ExitStatus::data) {
      must_go_on_ = true;
      save();
    }
    throw;
  }
}

ExitStatus Trainer::train() {
  try {
    return run_steps();
  } catch (const comm::SharedError& error) {  // every rank has it: the save that is under way is not lost
    try {
      saver_->finish();
    } catch (const comm::SharedError& second) {
      log_warning(second.what());
    }
    note_end(fmt::format("failed after step {}: {}", position_.step, error.what()));
    throw;
  }
}

ExitStatus Trainer::run_steps() {
  const config::ValidConfig& config = run_.config;
  const comm::Group& world = run_.groups.world;
  const bool begins = has_steps();
  if (!begins && saver_->saved_step() >= 0) {
    log_info(fmt::format("nothing left to train: {} of {} steps are done{}", position_.step, last_step_,
                         position_.step < last_step_
                             ? fmt::format(", and {}", describe_early_stop(config->train, position_.decisions))
                             : ""));
  }
  if (!begins && !is_evaluation_due()) return ExitStatus::done;

  const rows::LoaderPlan loader = rank::loader_plan(config, run_.place, positions_.num_rows, position_.step, last_step_,
                                                    run_.datasets.limits(config), positions_.origin);
  if (ops::is_of_library(rank::attention_kernels(config->device, config->model))) {
    expect_attention(run_.engine.backend(), run_.datasets.train, loader, run_.groups.rows);
    if (run_.datasets.eval) {
      expect_attention(run_.engine.backend(), *run_.datasets.eval,
                       rank::eval_loader_plan(config, run_.place, run_.datasets), run_.groups.rows);
    }
  }
  Batches batches(run_.datasets.train, loader, run_.groups.rows);
  rows::MicroBatch batch;
  if (begins) {
    const std::exception_ptr failure = batches.next(batch);
    world.agree([&] {
      if (failure) std::rethrow_exception(failure);
    });
  }
  Progress progress(position_.step, last_step_, is_terminal());
  announce_first_forward_pass();
  goodput_.begin_steps(Goodput::now());
  if (const std::string resumed = goodput_.describe_resume(); !resumed.empty()) log_event(resumed);
  session_.start = Clock::now();
  if (is_evaluation_due()) {
    (void)evaluate(progress);  // no signal cuts it short: before the first step they end the run
    if (position_.step > 0 && is_save_due()) save();
  }
  signals_.emplace({SIGTERM, SIGUSR1, SIGINT, SIGHUP});
  std::signal(SIGPIPE, SIG_IGN);  // a line that nobody reads ends nothing: stop_signal sees the closed output
  progress.begin_steps();

  Profile profile(run_, last_step_, progress);
  ExitStatus status = ExitStatus::done;
  while (has_steps() && status == ExitStatus::done) {
    profile.begin_step(position_.step + 1);
    const auto start = Clock::now();
    const double waited_before_s = seconds_waited();
    const double learning_rate = schedule_.rate(position_.step);
    RankState ranks = accumulate(batches, batch, learning_rate);
    if (ranks.must_stop()) {
      progress.finish();
      if (ranks.failed) save_and_rethrow();
      status = stop(ranks.signal);
      break;
    }
    saver_->release_state();
    const StepResult result = run_.engine.finish_step();
    count(result);
    if (run_.watch != nullptr) run_.watch->begin_steps();

    const bool is_last = position_.step == last_step_;
    if (!is_last) read(batches, batch);
    ranks = exchange(rank_state(), world);
    const double step_time_s = seconds_since(start);
    slowest_.add_step(step_time_s, seconds_waited() - waited_before_s);
    profile.end_step();

    StepMetrics metrics = measure(result, learning_rate, step_time_s);
    session_.add(metrics);
    if (result.left_out.empty()) goodput_.add_step(step_time_s);
    progress.advance(metrics);
    const bool is_first_logged = config->train.logging_first_step && position_.step == 1;
    if (is_last || is_first_logged || rank::is_due(position_.step, config->train.logging_steps)) {
      close_window(metrics);
      progress.log(metrics);
      append(metrics);
    } else {
      progress.log_first(metrics);
    }
    if (result.left_out.empty()) watch_loss(config->train, position_.step, result.loss, position_.decisions);
    if (ranks.failed) {
      progress.finish();
      save_and_rethrow();
    }
    if (saver_->is_under_way() && (!ranks.is_writing || ranks.write_failed)) {
      progress.finish();
      complete_save();
    }
    is_best_ = false;
    const int signal = ranks.signal == 0 && is_evaluation_due() ? evaluate_or_save(progress) : ranks.signal;
    if (is_save_due()) {
      progress.finish();
      begin_save();
    }
    if (signal != 0 && !(is_last && !is_evaluation_due())) {
      progress.finish();
      status = stop(signal);
    }
  }
  profile.finish();
  progress.finish();
  if (status == ExitStatus::done && position_.step < last_step_ && !has_steps()) {
    log_event(fmt::format("early stopping after step {} of {}: {}", position_.step, last_step_,
                          describe_early_stop(config->train, position_.decisions)));
  }
  if (exchange({0, failure_ != nullptr}, world).failed) save_and_rethrow();
  return status;
}

void Trainer::read(Batches& batches, rows::MicroBatch& batch) {
  const std::exception_ptr failure = device::timed(run_.device.timeline(), {.category = "data", .what = "read batch"},
                                                   [&] { return batches.next(batch); });
  if (!failure_) failure_ = failure;
}

RankState Trainer::rank_state() const {
  return {.signal = stop_signal(*signals_),
          .failed = failure_ != nullptr,
          .is_writing = saver_->is_writing(),
          .write_failed = saver_->has_failed()};
}

RankState Trainer::accumulate(Batches& batches, rows::MicroBatch& batch, double learning_rate) {
  const std::int64_t num_micro_batches = run_.config->train.gradient_accumulation_steps;
  // State in files is read ahead under the last micro-batch, and any may be stepped there.
  const bool is_touched = run_.engine.offloaded_bytes() > 0 || run_.engine.steps_early();
  const auto before_last = [&](std::int64_t number) {
    if (number + 1 == num_micro_batches && is_touched) saver_->release_state();
  };
  run_.engine.begin_step(position_.step + 1, learning_rate, batch.step_counts, position_.decisions.num_skipped_steps);
  before_last(0);
  run_.engine.add_micro_batch(batch);
  for (std::int64_t i = 1; i < num_micro_batches; ++i) {
    read(batches, batch);
    const RankState ranks = exchange(rank_state(), run_.groups.world);
    if (ranks.must_stop()) return ranks;
    before_last(i);
    run_.engine.add_micro_batch(batch);
  }
  return {};
}

ExitStatus Trainer::stop(int signal) {
  must_go_on_ = true;
  log_event(fmt::format("{} received: saving after step {} of {}; checkpoint.resume_from_checkpoint = auto goes on",
                        signal_name(signal), position_.step, last_step_));
  return ExitStatus::stopped;
}

template <class Metrics>
void Trainer::append(const Metrics& metrics) {
  if (!metrics_file_) return;
  try {
    keep_output_dir();
    const std::string line = to_json(metrics);
    metrics_file_->append(line);
    reports_->add(line);
  } catch (const Error& error) {
    failure_ = std::make_exception_ptr(comm::SharedError(error.status(), error.what()));  // of the run, not of a rank
  }
}

void Trainer::note_end(const std::string& how) {
  if (lock_) lock_->note_end(how);
  if (reports_) reports_->end();
}

void Trainer::Session::add(const StepMetrics& metrics) {
  ++num_steps;
  num_tokens += metrics.step_num_tokens;
  step_time_s += metrics.step_time_s;
  if (num_steps == 1) first_step_s = metrics.step_time_s;
}

double Trainer::Session::mean_step_s() const {
  if (num_steps < 2) return step_time_s;
  return (step_time_s - first_step_s) / static_cast<double>(num_steps - 1);
}

void Trainer::summarize(ExitStatus status, const std::vector<std::string>& next) {
  note_end(fmt::format("{} after step {} of {}", status == ExitStatus::done ? "done" : "stopped", position_.step,
                       last_step_));
  if (!session_.start) return;
  const HighestPeak memory = gather_highest_peak(run_.device, run_.ledger, run_.groups.world);
  if (run_.groups.world.rank() != 0) return;
  log_info("");
  log_event(describe(RunSummary{.is_done = status == ExitStatus::done,
                                .step = position_.step,
                                .last_step = last_step_,
                                .epoch = position_.epoch,
                                .time_s = seconds_since(*session_.start),
                                .step_time_s = session_.step_time_s,
                                .num_steps = session_.num_steps,
                                .num_tokens = session_.num_tokens,
                                .losses = read_loss_course(metrics_file_->path()),
                                .memory = memory,
                                .planned_step_s = run_.planned_step_s,
                                .took_step_s = session_.mean_step_s(),
                                .is_gpu = run_.device.kind() == device::Kind::cuda,
                                .goodput = describe(goodput_.at(Goodput::now())),
                                .next = next}));
}

}  // namespace sft::train
