// SPDX-License-Identifier: Apache-2.0
// How a run begins: in its folder, with the weights of a checkpoint or those that it starts with.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "best_model.hpp"
#include "reports.hpp"
#include "run_files.hpp"
#include "saver.hpp"
#include "sft/core/log.hpp"
#include "sft/io/files.hpp"
#include "sft/rank/datasets.hpp"
#include "sft/rank/nodes.hpp"
#include "sft/rank/run_length.hpp"
#include "sft/train/resume.hpp"
#include "sft/train/trainer.hpp"

namespace sft::train {

namespace fs = std::filesystem;

namespace {

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

/// The run that metrics.jsonl in the folder is of, as resolved.ini says; empty when it does not.
std::string run_id_of(const std::string& resolved_ini) {
  if (!fs::exists(resolved_ini)) return "";
  const std::string text = io::read_file(resolved_ini);
  const std::string first_line = text.substr(0, text.find('\n'));
  return first_line.starts_with(run_id_comment) ? first_line.substr(std::strlen(run_id_comment)) : "";
}

}  // namespace

Trainer::Restored Trainer::restore() {
  try {
    return take_folder_and_weights();
  } catch (const comm::SharedError& error) {
    note_end(fmt::format("failed before its first step: {}", error.what()));
    throw;
  }
}

Trainer::Restored Trainer::take_folder_and_weights() {
  const config::ValidConfig& config = run_.config;
  const std::string& output_dir = config->train.output_dir;
  std::string folder;
  std::string fingerprint;         // of the data
  Markup markup;                   // of the data
  std::string frozen_fingerprint;  // of weights that are not trained
  checkpoint::Header saved;
  let_rank_0(run_.groups.world, [&] {
    io::make_folders(output_dir);
    lock_.emplace(output_dir);
    fingerprint = run_.datasets.train.fingerprint();
    markup = run_.datasets.train.markup();
  });
  rows::StepOrigin origin;
  const auto find_resume = [&] {
    let_rank_0(run_.groups.world, [&] {
      folder = checkpoint::find_resume(config, run_.damaged);
      if (folder.empty()) return;
      saved = checkpoint::read_header(folder);
      if (saved.position.is_model_only) {
        throw_data_error(fmt::format("cannot go on from {}", folder),
                         "it holds weights alone (checkpoint.save_only_model), without the state of the optimizer",
                         "begin a new run with model.model_name_or_path set to it, or go on from another checkpoint");
      }
      check_resume(config, run_.datasets.train.num_rows(), run_.datasets.train.max_length(), folder, saved);
      check_resume_data(fingerprint, folder, saved);
      origin = origin_of_resume(config, folder, saved);
    });
    run_.groups.world.broadcast(folder, 0);
    rank::broadcast(origin, run_.groups.world);
  };
  // What is planned follows from the step that the run goes on from.
  const auto is_planned_for = [&] { return folder.empty() || origin == run_.datasets.origin; };
  find_resume();
  if (!is_planned_for()) return Restored::needs_other_plan;

  using Start = Engine::Start;
  const Start start = folder.empty() ? Start::anew : Start::from_checkpoint;
  const bool has_all_weights = !folder.empty() && !config->lora.use_peft;
  if (!has_all_weights && run_.start_weights != nullptr) {
    frozen_fingerprint = run_.start_weights->load(run_.engine.weights());
    run_.engine.initialize_beside_weights(start);
    origin_ = run_.start_weights->origin;
  } else if (!has_all_weights) {
    run_.engine.initialize(start);
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
      run_.damaged.push_back(folder);
      find_resume();
      if (folder.empty()) throw;
      log_warning(
          fmt::format("{} is left out ({}): the run goes on from {}", run_.damaged.back(), error.what(), folder));
      return false;
    }
  };
  if (!folder.empty()) {
    while (!load()) {
      if (!is_planned_for()) return Restored::needs_other_plan;
    }
    run_.engine.split_weights_as_saved();
    let_rank_0(run_.groups.world, [&] {
      for (const std::string& change : changes_on_resume(config, folder, saved)) log_warning(change);
    });
    run_.groups.world.agree([&] { schedule_.restore(position_.schedule); });
    position_.schedule = schedule_.state();
    std::string& best = position_.decisions.best_checkpoint;
    let_rank_0(run_.groups.world, [&] { best = find_best_checkpoint(output_dir, folder, position_.decisions); });
    run_.groups.world.broadcast(best, 0);
    saver_->set_saved(position_.step, folder);
    resumed_step_ = position_.step;
    const std::string saved_weights = folder + ", step " + std::to_string(position_.step);
    origin_ = has_all_weights ? saved_weights : origin_ + "; adapters: " + saved_weights;
  }
  let_rank_0(run_.groups.world, [&] {
    position_.data_fingerprint = fingerprint;
    position_.markup = markup;
    position_.frozen_fingerprint = frozen_fingerprint;
    position_.frozen_origin = frozen_origin;
    position_.date = std::max(saved.date, checkpoint::latest_date(output_dir));
    position_.lineage = folder.empty() ? checkpoint::new_lineage()
                                       : checkpoint::resume_lineage(output_dir, folder, saved, run_.damaged);
    warn_of_others(output_dir, position_, folder.empty());
    open_output(folder, saved.position.lineage);
  });
  const IndexedVector<WorldRank, int> nodes = rank::nodes_of_ranks(run_.session);
  checkpoint::add_writer(position_, run_.place.layout().describe(),
                         std::ssize(std::set<int>(nodes.begin(), nodes.end())), config->effective_batch_rows());
  return Restored::done;
}

void Trainer::open_output(const std::string& resumed, const checkpoint::Lineage& saved) {
  const std::string& output_dir = run_.config->train.output_dir;
  const std::string earlier_run = run_id_of(resolved_ini_of(run_.config));
  const bool is_new = position_.lineage.run_id != saved.run_id;
  std::error_code error;
  const bool is_same_folder = !resumed.empty() && fs::equivalent(folder_beside(resumed), output_dir, error);
  if (is_new || position_.step < last_step_ || is_evaluation_due()) {
    open_goodput(output_dir + "/metrics.jsonl", is_new);
    EarlierLines earlier = EarlierLines::set_aside;
    if (is_same_folder && (earlier_run.empty() || earlier_run == saved.run_id)) {
      earlier = is_new ? EarlierLines::keep_and_copy : EarlierLines::keep;
    }
    metrics_file_ =
        std::make_unique<MetricsFile>(output_dir + "/metrics.jsonl", position_.step, position_.evaluated_step, earlier);
  }
  write_resolved_ini();
  if (metrics_file_) {
    reports_ = std::make_unique<Reports>(run_.config->train,
                                         Reports::Beginning{.run_id = position_.lineage.run_id,
                                                            .resolved_ini = io::read_file(resolved_ini_of(run_.config)),
                                                            .metrics = io::read_file(metrics_file_->path())});
  }
}

void Trainer::open_goodput(const std::string& metrics_path, bool is_new) {
  const std::string starts_path = run_.config->train.output_dir + "/starts.jsonl";
  const std::string& run_id = position_.lineage.run_id;
  const auto text_of = [](const std::string& path) { return fs::exists(path) ? io::read_file(path) : ""; };
  if (!is_new) {
    goodput_.resume(position_.step, parse_time_note(position_.time_use), last_start_of(run_id, text_of(starts_path)),
                    last_line_of(text_of(metrics_path)));
  }
  goodput_.count_restarts(launched_restarts());
  append_start(starts_path, goodput_.note(Goodput::now(), position_.step), run_id, last_step_);
}

}  // namespace sft::train
