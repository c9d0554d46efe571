// SPDX-License-Identifier: Apache-2.0
#include "saver.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <exception>
#include <filesystem>
#include <utility>

#include "sft/comm/session.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"

namespace sft::train {

Saver::Saver(const Run& run) : run_(run) {
  if (const Tensor memory = run.engine.snapshot_memory(); memory.ndim > 0) snapshot_.emplace(memory, run.device);
}

template <class Work>
void Saver::stall(const char* what, const Work& work) {
  const Clock::time_point start = Clock::now();
  device::timed(run_.device.timeline(), {.category = "checkpoint", .what = what}, work);
  const double waited_s = std::chrono::duration<double>(Clock::now() - start).count();
  stall_s_ += waited_s;
  if (under_way_) under_way_->waited_s += waited_s;
}

void Saver::begin(const checkpoint::Position& position, const checkpoint::State& state,
                  const std::function<void()>& before) {
  finish();
  const Clock::time_point start = Clock::now();
  stall("save checkpoint", [&] {
    checkpoint::Position dated = position;
    dated.date = std::max(position.date, date_);
    const checkpoint::LocalWork local{.before =
                                          [&] {
                                            before();
                                            pruner_.wait();
                                          },
                                      .beside =
                                          [&](const checkpoint::WritePlan& plan) {
                                            if (snapshot_) snapshot_->begin(plan, state, run_.engine.stream());
                                          }};
    auto save =
        std::make_unique<checkpoint::Save>(run_.config->train.output_dir, run_.config, run_.datasets.train.tokenizer(),
                                           run_.place, run_.groups, state.entries(), dated, local);
    try {
      if (run_.saved_model != nullptr) run_.saved_model->begin();
    } catch (const comm::SharedError&) {
      save->discard();
      throw;
    }
    is_copying_ = snapshot_.has_value();
    under_way_.emplace(UnderWay{std::move(save), std::move(dated), state, start});
  });
  if (!snapshot_) return finish();
  log_event(
      fmt::format("saving {} beside training", std::filesystem::path(under_way_->save->folder()).filename().string()));
  if (run_.device.kind() == device::Kind::cpu) start_writer();
}

void Saver::start_writer() {
  writer_.start([this] {
    if (run_.device.kind() == device::Kind::cpu) snapshot_->copy();
    under_way_->save->write(snapshot_->bytes());
    if (run_.saved_model == nullptr) return;
    if (under_way_->save->has_failed()) return run_.saved_model->abandon();
    run_.saved_model->write([this](io::TensorSink& sink) { snapshot_->give_first(sink); });
  });
}

void Saver::release_state() {
  if (!is_copying_) return;
  stall("copy state", [&] { snapshot_->wait(); });
  is_copying_ = false;
  if (run_.device.kind() != device::Kind::cpu) start_writer();
}

void Saver::write_state() {
  const checkpoint::State& state = under_way_->state;
  under_way_->save->write(state, run_.device, run_.engine.stream());
  if (run_.saved_model == nullptr) return;
  if (under_way_->save->has_failed()) return run_.saved_model->abandon();
  const checkpoint::State weights(state.first_entries(), [] {});
  run_.saved_model->write(
      [&](io::TensorSink& sink) { checkpoint::save_entries(weights, sink, run_.device, run_.engine.stream()); });
}

void Saver::finish(const std::function<void()>& before) {
  if (!under_way_) return;
  release_state();
  try {
    stall("complete checkpoint", [&] { complete(before); });
  } catch (...) {
    under_way_.reset();
    throw;
  }
  log_saved(*under_way_);
  under_way_.reset();
}

void Saver::complete(const std::function<void()>& before) {
  const comm::Group& world = run_.groups.world;
  std::exception_ptr model_error;  // of saved_model: the checkpoint is whole without it
  try {
    if (snapshot_) {
      writer_.wait();
    } else {
      write_state();
    }
  } catch (...) {
    model_error = std::current_exception();
  }
  checkpoint::Save& save = *under_way_->save;
  date_ = save.commit(before);
  set_saved(under_way_->position.step, save.folder());
  if (run_.saved_model != nullptr) {
    world.agree([&] {
      if (model_error) std::rethrow_exception(model_error);
    });
    run_.saved_model->finish();
  }
  if (world.rank() != 0) return;
  pruner_.start([folder = save.folder(), lineage = under_way_->position.lineage,
                 limit = run_.config->checkpoint.save_total_limit,
                 best = under_way_->position.decisions.best_checkpoint] {
    checkpoint::remove_old(folder, lineage, limit, best);
  });
}

void Saver::close() {
  finish();
  run_.groups.world.agree([&] { pruner_.wait(); });
}

void Saver::log_saved(const UnderWay& done) const {
  const double time_s = std::chrono::duration<double>(Clock::now() - done.start).count();
  const std::string waited = snapshot_ ? fmt::format(" ({} waited)", format_seconds(done.waited_s)) : "";
  log_event(fmt::format("saved {} in {}{}", saved_folder_, format_seconds(time_s), waited));
}

void Saver::set_saved(std::int64_t step, const std::string& folder) {
  saved_step_ = step;
  saved_folder_ = folder;
}

double Saver::take_stall_s() { return std::exchange(stall_s_, 0.0); }

}  // namespace sft::train
