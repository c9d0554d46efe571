// SPDX-License-Identifier: Apache-2.0
#include "sft/train/trainer.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "evaluation.hpp"
#include "notice.hpp"
#include "profile.hpp"
#include "saver.hpp"
#include "sft/comm/launcher.hpp"
#include "sft/config/parse.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/core/stop_signals.hpp"
#include "sft/io/files.hpp"
#include "sft/machine/node.hpp"
#include "sft/plan/datasets.hpp"
#include "sft/plan/run_length.hpp"
#include "sft/plan/start_table.hpp"
#include "sft/plan/traffic.hpp"
#include "sft/train/resume.hpp"
#include "summary.hpp"

namespace sft::train {

namespace fs = std::filesystem;

namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// The signal that asks this rank to stop, or 0. An output that nobody reads is SIGPIPE. Where it is mpirun's, that
/// would end all ranks at the next line, before they have saved, so nothing is printed any more.
int stop_signal(const StopSignals& signals) {
  if (signals.received() != 0 || log_rank() != 0) return signals.received();
  if (comm::is_output_closed()) return SIGPIPE;
  if (!comm::is_launcher_output_closed()) return 0;
  return std::freopen("/dev/null", "w", stdout) == nullptr ? 0 : SIGPIPE;
}

/// Runs `work` on rank 0 for all; its error becomes every rank's and names no rank.
void let_rank_0(const comm::Group& world, const std::function<void()>& work) {
  world.agree([&] {
    if (world.rank() != 0) return;
    try {
      work();
    } catch (const Error& error) {
      throw comm::SharedError(error.status(), error.what());
    }
  });
}

/// Says what happens to checkpoints of other runs in the same folder.
void warn_of_others(const std::string& output_dir, const checkpoint::Position& position, bool is_new) {
  const std::vector<std::string> others = checkpoint::list_of_others(output_dir, position);
  if (others.empty()) return;
  const std::string start = is_new ? "starts anew" : "goes on from step " + std::to_string(position.step);
  const std::string names = others.size() == 1
                                ? others.back() + " is"
                                : others.back() + " and " + std::to_string(others.size() - 1) + " more are";
  log_warning(names + " not of this run, which " + start +
              " in the same folder: save_total_limit leaves them alone, but a checkpoint of the same step takes the "
              "place of an old one, and until this run has saved, auto may go on from them; set another "
              "train.output_dir to keep runs apart");
}

constexpr const char* run_id_comment = "# run ";

std::string resolved_ini_of(const config::Config& config) { return config.train.output_dir + "/resolved.ini"; }

/// The run that metrics.jsonl in the folder is of, as resolved.ini says; empty when it does not.
std::string run_id_of(const std::string& resolved_ini) {
  if (!fs::exists(resolved_ini)) return "";
  const std::string text = io::read_file(resolved_ini);
  const std::string first_line = text.substr(0, text.find('\n'));
  return first_line.starts_with(run_id_comment) ? first_line.substr(std::strlen(run_id_comment)) : "";
}

MemoryPeaks gather_memory_peaks(device::Device& device, const comm::Group& world) {
  const auto peak = static_cast<std::int64_t>(device.peak_bytes());
  std::array<std::int64_t, 2> extremes{peak, -peak};
  std::array<std::int64_t, 1> total{peak};
  world.max(std::span<std::int64_t>(extremes));
  world.sum(std::span<std::int64_t>(total));
  return {-extremes[1], total[0] / world.size(), extremes[0]};
}

void announce_first_forward_pass() {
  const double now_s = std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
  log_event("first forward pass " + format_seconds(now_s - process_start_time_s()) + " after the process started");
}

}  // namespace

Trainer::Trainer(const Run& run)
    : run_(run),
      positions_(plan::step_positions(run.config, run.datasets.train.num_rows())),
      last_step_(plan::num_steps(run.config, run.datasets.train.num_rows())),
      schedule_(run.config->optimizer, last_step_),
      saver_(std::make_unique<Saver>(run_)) {
  position_.num_rows = positions_.num_rows;
  position_.max_length = run.datasets.train.max_length();
  position_.row_order = plan::name_of(positions_.kind);
  run_.ledger.add(device::Label::batches, device::Space::host,
                  plan::batches_bytes(run.config, run.place, run.datasets));
}

Trainer::~Trainer() = default;

const std::string& Trainer::saved() const { return saver_->saved_folder(); }

void Trainer::restore() {
  const config::ValidConfig& config = run_.config;
  const std::string& output_dir = config->train.output_dir;
  std::string folder;
  std::string fingerprint;         // of the data
  std::string frozen_fingerprint;  // of weights that are not trained
  checkpoint::Header saved;
  let_rank_0(run_.groups.world, [&] {
    io::make_folders(output_dir);
    lock_.emplace(output_dir);
    fingerprint = run_.datasets.train.fingerprint();
  });
  std::vector<std::string> damaged;  // checkpoints that auto found and that could not be loaded
  const auto find_resume = [&] {
    let_rank_0(run_.groups.world, [&] {
      folder = checkpoint::find_resume(config, damaged);
      if (folder.empty()) return;
      saved = checkpoint::read_header(folder);
      check_resume(config, run_.datasets.train.num_rows(), run_.datasets.train.max_length(), folder, saved);
      check_resume_data(fingerprint, folder, saved);
      for (const std::string& change : changes_on_resume(config, folder, saved)) log_warning(change);
    });
    run_.groups.world.broadcast(folder, 0);
  };
  find_resume();

  const bool has_all_weights = !folder.empty() && !config->lora.use_peft;
  if (!has_all_weights && run_.start_weights != nullptr) {
    run_.engine.initialize_beside_weights();
    frozen_fingerprint = run_.start_weights->load(run_.engine.weights());
    origin_ = run_.start_weights->origin;
  } else if (!has_all_weights) {
    run_.engine.initialize();
    if (config->lora.use_peft) frozen_fingerprint = random_weights;
    origin_ = "random, model.init_seed = " + std::to_string(config->model.init_seed);
  }
  const std::string frozen_origin = config->lora.use_peft ? origin_ : "";
  const auto load = [&] {
    let_rank_0(run_.groups.world, [&] {
      if (!config->lora.use_peft) return;
      const auto doubts = check_resume_weights(frozen_fingerprint, frozen_origin, folder, saved);
      for (const std::string& doubt : doubts) log_warning(doubt);
    });
    try {
      position_ = checkpoint::load(folder, run_.groups.world, run_.engine.state(), run_.device, run_.engine.stream());
      return true;
    } catch (const comm::SharedError& error) {
      if (config->checkpoint.resume_from_checkpoint != "auto" || error.status() != ExitStatus::data) throw;
      damaged.push_back(folder);
      find_resume();
      if (folder.empty()) throw;
      log_warning(fmt::format("{} is left out ({}): the run goes on from {}", damaged.back(), error.what(), folder));
      return false;
    }
  };
  if (!folder.empty()) {
    while (!load()) {
    }
    run_.groups.world.agree([&] { schedule_.restore(position_.schedule); });
    position_.schedule = schedule_.state();
    saver_->set_saved(position_.step, folder);
    resumed_step_ = position_.step;
    const std::string saved_weights = folder + ", step " + std::to_string(position_.step);
    origin_ = has_all_weights ? saved_weights : origin_ + "; adapters: " + saved_weights;
  }
  let_rank_0(run_.groups.world, [&] {
    position_.data_fingerprint = fingerprint;
    position_.frozen_fingerprint = frozen_fingerprint;
    position_.frozen_origin = frozen_origin;
    position_.date = std::max(saved.date, checkpoint::latest_date(output_dir));
    position_.lineage =
        folder.empty() ? checkpoint::new_lineage() : checkpoint::resume_lineage(output_dir, folder, saved.position);
    warn_of_others(output_dir, position_, folder.empty());
    open_output(folder, saved.position.lineage);
  });
  const std::vector<int> nodes = plan::nodes_of_ranks(run_.session);
  checkpoint::add_writer(position_, run_.place.layout().describe(),
                         std::ssize(std::set<int>(nodes.begin(), nodes.end())));
}

void Trainer::open_output(const std::string& resumed, const checkpoint::Lineage& saved) {
  const std::string& output_dir = run_.config->train.output_dir;
  const std::string earlier_run = run_id_of(resolved_ini_of(run_.config));
  const bool is_new = position_.lineage.run_id != saved.run_id;
  std::error_code error;
  const bool is_same_folder =
      !resumed.empty() && fs::equivalent(fs::path(resumed).lexically_normal().parent_path(), output_dir, error);
  if (is_new || position_.step < last_step_ || is_evaluation_due()) {
    EarlierLines earlier = EarlierLines::set_aside;
    if (is_same_folder && (earlier_run.empty() || earlier_run == saved.run_id)) {
      earlier = is_new ? EarlierLines::keep_and_copy : EarlierLines::keep;
    }
    metrics_file_ =
        std::make_unique<MetricsFile>(output_dir + "/metrics.jsonl", position_.step, position_.evaluated_step, earlier);
  }
  write_resolved_ini();
}

void Trainer::announce() const {
  const std::vector<int> nodes = plan::nodes_of_ranks(run_.session);
  const mesh::Layout& layout = run_.place.layout();
  log_info(plan::start_table({.config = run_.config,
                              .kind = run_.device.kind(),
                              .datasets = run_.datasets,
                              .num_parameters = run_.engine.num_parameters(),
                              .nodes = plan::describe_nodes(layout, nodes),
                              .device = plan::describe_device(run_.device),
                              .origin = origin_,
                              .sp_choice = run_.sp_choice,
                              .num_steps = last_step_,
                              .memory = plan::gather_memory(run_.ledger, run_.device.kind(), run_.groups.world),
                              .traffic = plan::plan_traffic(run_.config, run_.datasets.limits(run_.config), run_.place,
                                                            {run_.device.kind(), machine::num_threads()}),
                              .offloaded_bytes = run_.engine.offloaded_bytes(),
                              .saved_bytes = checkpoint::saved_bytes(run_.engine.state().entries()),
                              .save_choice = run_.save_choice}));
  if (layout.axes_between_nodes(nodes).contains(Axis::tp)) {
    log_warning(
        "tp goes between nodes (its ranks sum activations several times in every block, which needs the speed of one "
        "node): make tp_size divide the number of ranks per node");
  }
}

void Trainer::count(const StepResult& result) {
  ++position_.step;
  position_.rows_consumed = positions_.begin(position_.step);
  position_.epoch = plan::epochs_after(position_.step, positions_);
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
  StepMetrics metrics;
  metrics.step = position_.step;
  metrics.epoch = position_.epoch;
  metrics.loss = result.loss;
  metrics.grad_norm = result.grad_norm;
  metrics.learning_rate = learning_rate;
  metrics.num_tokens = position_.num_tokens;
  metrics.num_target_tokens = position_.num_target_tokens;
  metrics.mean_token_accuracy = result.mean_token_accuracy;
  metrics.entropy = result.entropy;
  metrics.step_loss = result.loss;
  metrics.step_num_tokens = result.num_tokens;
  metrics.step_num_target_tokens = result.num_target_tokens;
  metrics.step_time_s = step_time_s;
  metrics.resumed_step = resumed_step_;
  if (const double peak_tflops = run_.config->device.peak_tflops; peak_tflops > 0) {
    metrics.mfu = result.model_flops / step_time_s / (1e12 * peak_tflops * run_.groups.world.size());
  }
  return metrics;
}

void Trainer::close_window(StepMetrics& metrics) {
  const checkpoint::LogWindow& window = position_.since_log;
  const auto num_steps = static_cast<double>(window.num_steps);
  metrics.loss = window.loss / num_steps;
  metrics.mean_token_accuracy = window.mean_token_accuracy / num_steps;
  metrics.entropy = window.entropy / num_steps;
  metrics.save_stall_s = saver_->take_stall_s();
  metrics.peak_memory = gather_memory_peaks(run_.device, run_.groups.world);
  position_.since_log = {};
  resumed_step_.reset();
}

bool Trainer::is_evaluation_due() const {
  const std::int64_t step = position_.step;
  if (!run_.datasets.eval || position_.evaluated_step == step) return false;
  if (step >= last_step_) return true;
  return step == 0 ? run_.config->train.eval_on_start : plan::is_due(step, run_.config->train.eval_interval());
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
                               plan::eval_loader_plan(run_.config, run_.place, run_.datasets), position_.step,
                               run_.groups.world, before_batch);
      });
  const auto& [signal, result] = evaluation;
  if (signal != 0) return signal;
  position_.evaluated_step = position_.step;
  if (position_.step > 0 && plan::is_due(position_.step, run_.config->train.eval_interval()))
    schedule_.observe(result.loss);
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
    if (error.status() == ExitStatus::data) save();
    throw;
  }
}

ExitStatus Trainer::train() {
  try {
    return run_steps();
  } catch (const comm::SharedError&) {  // every rank has it: the save that is under way is not lost
    try {
      saver_->finish();
    } catch (const comm::SharedError& second) {
      log_warning(second.what());
    }
    throw;
  }
}

ExitStatus Trainer::run_steps() {
  const config::ValidConfig& config = run_.config;
  const comm::Group& world = run_.groups.world;
  const bool has_steps = position_.step < last_step_;
  if (!has_steps && saver_->saved_step() >= 0) {
    log_info("nothing left to train: " + std::to_string(position_.step) + " of " + std::to_string(last_step_) +
             " steps are done");
  }
  if (!has_steps && !is_evaluation_due()) return ExitStatus::done;

  data::Loader loader(run_.datasets.train,
                      plan::loader_plan(config, run_.place, positions_.num_rows, position_.step, last_step_));
  data::MicroBatch batch;
  if (has_steps) world.agree([&] { batch = loader.next(); });
  Progress progress(position_.step, last_step_, is_terminal());
  announce_first_forward_pass();
  session_.start = Clock::now();
  if (is_evaluation_due()) (void)evaluate(progress);  // no signal cuts it short: before the first step they end the run
  signals_.emplace({SIGTERM, SIGUSR1, SIGINT, SIGHUP});
  std::signal(SIGPIPE, SIG_IGN);  // a line that nobody reads ends nothing: stop_signal sees the closed output
  progress.begin_steps();

  Profile profile(run_, last_step_, progress);
  ExitStatus status = ExitStatus::done;
  while (position_.step < last_step_ && status == ExitStatus::done) {
    profile.begin_step(position_.step + 1);
    const auto start = Clock::now();
    const double learning_rate = schedule_.rate(position_.step);
    Notice notice = accumulate(loader, batch, learning_rate);
    if (notice.must_stop()) {
      progress.finish();
      if (notice.failed) save_and_rethrow();
      announce_stop(notice.signal);
      status = ExitStatus::stopped;
      break;
    }
    saver_->release_state();
    const StepResult result = run_.engine.finish_step();
    count(result);

    const bool is_last = position_.step == last_step_;
    if (!failure_ && !is_last) failure_ = read(loader, batch);
    notice = exchange(this->notice(), world);
    const double step_time_s = seconds_since(start);
    profile.end_step();

    StepMetrics metrics = measure(result, learning_rate, step_time_s);
    session_.add(metrics);
    progress.advance(metrics);
    if (is_last || plan::is_due(position_.step, config->train.logging_steps)) {
      close_window(metrics);
      progress.log(metrics);
      append(metrics);
    } else {
      progress.log_first(metrics);
    }
    if (notice.failed) {
      progress.finish();
      save_and_rethrow();
    }
    if (saver_->is_under_way() && (!notice.is_writing || notice.write_failed)) {
      progress.finish();
      complete_save();
    }
    const int signal = notice.signal == 0 && is_evaluation_due() ? evaluate_or_save(progress) : notice.signal;
    if (plan::is_due(position_.step, config->checkpoint.save_steps)) {
      progress.finish();
      begin_save();
    }
    if (signal != 0 && !(is_last && !is_evaluation_due())) {
      progress.finish();
      announce_stop(signal);
      status = ExitStatus::stopped;
    }
  }
  profile.finish();
  progress.finish();
  if (exchange({0, failure_ != nullptr}, world).failed) save_and_rethrow();
  return status;
}

std::exception_ptr Trainer::read(data::Loader& loader, data::MicroBatch& batch) {
  return device::timed(run_.device.timeline(), {.category = "data", .what = "read batch"},
                       [&] { return fetch(loader, batch); });
}

Notice Trainer::notice() const {
  return {.signal = stop_signal(*signals_),
          .failed = failure_ != nullptr,
          .is_writing = saver_->is_writing(),
          .write_failed = saver_->has_failed()};
}

Notice Trainer::accumulate(data::Loader& loader, data::MicroBatch& batch, double learning_rate) {
  const std::int64_t num_micro_batches = run_.config->train.gradient_accumulation_steps;
  // State in files may be stepped under the last micro-batch.
  const auto before_last = [&](std::int64_t number) {
    if (number + 1 == num_micro_batches && run_.engine.offloaded_bytes() > 0) saver_->release_state();
  };
  run_.engine.begin_step(position_.step + 1, learning_rate, batch.step_counts);
  before_last(0);
  run_.engine.add_micro_batch(batch);
  for (std::int64_t i = 1; i < num_micro_batches; ++i) {
    if (!failure_) failure_ = read(loader, batch);
    const Notice notice = exchange(this->notice(), run_.groups.world);
    if (notice.must_stop()) return notice;
    before_last(i);
    run_.engine.add_micro_batch(batch);
  }
  return {};
}

void Trainer::announce_stop(int signal) const {
  log_event(signal_name(signal) + " received: saving after step " + std::to_string(position_.step) + " of " +
            std::to_string(last_step_) + "; checkpoint.resume_from_checkpoint = auto goes on");
}

template <class Metrics>
void Trainer::append(const Metrics& metrics) {
  if (!metrics_file_) return;
  try {
    keep_output_dir();
    metrics_file_->append(metrics);
  } catch (const Error& error) {
    failure_ = std::make_exception_ptr(comm::SharedError(error.status(), error.what()));  // of the run, not of a rank
  }
}

void Trainer::save_and_rethrow() {
  save();
  run_.groups.world.agree([&] {
    if (failure_) std::rethrow_exception(failure_);
  });
}

void Trainer::keep_output_dir() {
  const std::string& output_dir = run_.config->train.output_dir;
  if (lock_ && lock_->is_in_place()) return;
  const bool is_gone = !fs::exists(resolved_ini_of(run_.config));
  io::make_folders(output_dir);
  lock_.reset();
  lock_.emplace(output_dir);
  log_warning(is_gone ? output_dir +
                            " was removed while the run was writing to it: it is there again without what was in "
                            "it, and the run goes on"
                      : output_dir + "/run.lock was removed: the run took it again");
  if (is_gone) write_resolved_ini();
}

void Trainer::write_resolved_ini() const {
  io::write_file_atomically(resolved_ini_of(run_.config),
                            run_id_comment + position_.lineage.run_id + "\n" + config::to_ini(run_.config));
}

void Trainer::save() {
  complete_save();
  if (saver_->saved_step() != position_.step) begin_save();
  saver_->close();
}

void Trainer::begin_save() {
  complete_save();
  let_rank_0(run_.groups.world, [&] { keep_output_dir(); });
  saver_->begin(position_);
}

void Trainer::complete_save() {
  if (!saver_->is_under_way()) return;
  let_rank_0(run_.groups.world, [&] { keep_output_dir(); });
  saver_->finish();
}

void Trainer::Session::add(const StepMetrics& metrics) {
  ++num_steps;
  num_tokens += metrics.step_num_tokens;
  step_time_s += metrics.step_time_s;
}

void Trainer::summarize(ExitStatus status, const std::vector<std::string>& next) const {
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
                                .is_gpu = run_.device.kind() == device::Kind::cuda,
                                .next = next}));
}

}  // namespace sft::train
