// SPDX-License-Identifier: Apache-2.0
// What a run leaves: its checkpoints, resolved.ini, and at its end the best weights.
#include <fmt/format.h>

#include <chrono>
#include <filesystem>
#include <string>
#include <system_error>

#include "best_model.hpp"
#include "run_files.hpp"
#include "saver.hpp"
#include "sft/config/parse.hpp"
#include "sft/core/activity.hpp"
#include "sft/core/log.hpp"
#include "sft/io/files.hpp"
#include "sft/train/trainer.hpp"

namespace sft::train {

namespace fs = std::filesystem;

void Trainer::keep_output_dir() {
  const std::string& output_dir = run_.config->train.output_dir;
  if (lock_ && lock_->is_in_place()) return;
  const bool is_gone = !fs::exists(resolved_ini_of(run_.config));
  io::make_folders(output_dir);
  lock_.reset();
  lock_.emplace(output_dir);
  log_warning(is_gone ? fmt::format("{} was removed while the run was writing to it: it is there again without what "
                                    "was in it, and the run goes on",
                                    output_dir)
                      : fmt::format("{}/run.lock was removed: the run took it again", output_dir));
  if (is_gone) write_resolved_ini();
}

void Trainer::write_resolved_ini() const {
  io::write_file_atomically(
      resolved_ini_of(run_.config),
      fmt::format("{}{}\n{}", run_id_comment, position_.lineage.run_id, config::to_ini(run_.config)));
}

void Trainer::save() {
  complete_save();
  const std::string folder = checkpoint::path_of(run_.config->train.output_dir, position_.step);
  if (saver_->saved_step() != position_.step || (saves_whole() && !is_saved_whole_)) {
    begin_save();
  } else {
    std::error_code error;  // one of another folder is no checkpoint of this run
    if (fs::equivalent(folder, saver_->saved_folder(), error)) {
      note_saved(position_.step, folder, position_.decisions);
    }
  }
  const double before_s = Goodput::now();
  saver_->close();
  goodput_.add_save(Goodput::now() - before_s);
}

bool Trainer::saves_whole() const { return must_go_on_ || !run_.config->checkpoint.save_only_model; }

void Trainer::begin_save() {
  complete_save();
  const Activity saving(ActivityKind::saves, "saving");
  const double before_s = Goodput::now();
  note_saved(position_.step, checkpoint::path_of(run_.config->train.output_dir, position_.step), position_.decisions);
  is_saved_whole_ = saves_whole();
  position_.is_model_only = !is_saved_whole_;
  position_.time_use = to_json(goodput_.note(before_s, position_.step), position_.lineage.run_id);
  saver_->begin(position_, is_saved_whole_ ? run_.engine.state() : trained_weights(),
                [this] { on_rank_0(run_.groups.world, [this] { keep_output_dir(); }); });
  goodput_.add_save(Goodput::now() - before_s);
}

void Trainer::complete_save() {
  if (!saver_->is_under_way()) return;
  const Activity saving(ActivityKind::saves, "saving");
  const double before_s = Goodput::now();
  saver_->finish([this] { on_rank_0(run_.groups.world, [this] { keep_output_dir(); }); });
  goodput_.add_save(Goodput::now() - before_s);
}

void Trainer::save_and_rethrow() {
  must_go_on_ = true;
  save();
  run_.groups.world.agree([&] {
    if (failure_) std::rethrow_exception(failure_);
  });
}

checkpoint::State Trainer::trained_weights() const {
  return run_.config->lora.use_peft ? run_.engine.adapter() : run_.engine.weights();
}

void Trainer::load_best() {
  const config::Train& train = run_.config->train;
  if (!train.load_best_model_at_end) return;
  const std::string folder = best_folder(train.output_dir, position_.decisions);
  if (folder.empty()) {
    log_warning("there is no best checkpoint: what the run leaves has the weights of its last step");
    return;
  }
  if (folder != checkpoint::path_of(train.output_dir, position_.step)) {
    checkpoint::LoadedWeights seen;
    checkpoint::load_weights(folder, run_.groups.world, trained_weights(), run_.device, run_.engine.stream(), seen);
  }
  log_event(fmt::format("the best model is that of {}", describe_best(train, position_.decisions)));
}

}  // namespace sft::train
