// SPDX-License-Identifier: Apache-2.0
#include "saver.hpp"

#include <fmt/core.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "sft/core/format.hpp"
#include "sft/core/log.hpp"

namespace sft::train {

Saver::Saver(const Run& run) : run_(run) {
  if (const Tensor memory = run.engine.snapshot_memory(); memory.ndim > 0) {
    snapshot_.emplace(memory, run.place, run.device);
  }
}

template <class Work>
void Saver::stall(const Work& work) {
  const Clock::time_point start = Clock::now();
  device::timed(run_.device.timeline(), {.category = "checkpoint", .what = "save checkpoint"}, work);
  const double waited_s = std::chrono::duration<double>(Clock::now() - start).count();
  stall_s_ += waited_s;
  if (under_way_) under_way_->waited_s += waited_s;
}

void Saver::begin(const checkpoint::Position& position) {
  finish();
  const Clock::time_point start = Clock::now();
  stall([&] {
    run_.groups.world.agree([&] { pruner_.wait(); });
    const std::string& output_dir = run_.config->train.output_dir;
    const checkpoint::State state = run_.engine.state();
    auto save = std::make_unique<checkpoint::Save>(output_dir, run_.place, run_.groups, state, position.step);
    if (run_.saved_model != nullptr) run_.saved_model->begin();
    if (snapshot_) run_.groups.world.agree([&] { snapshot_->begin(state, run_.engine.stream()); });
    is_copying_ = snapshot_.has_value();
    under_way_.emplace(UnderWay{std::move(save), position, start});
    under_way_->position.date = std::max(position.date, date_);
  });
  if (!snapshot_) return finish();
  log_event(
      fmt::format("saving {} beside training", std::filesystem::path(under_way_->save->folder()).filename().string()));
  if (run_.device.kind() == device::Kind::cpu) release_state();  // which has copied already
}

void Saver::release_state() {
  if (!is_copying_) return;
  stall([&] { snapshot_->wait(); });
  is_copying_ = false;
  writer_.start([this] {
    under_way_->save->write([this](io::TensorSink& sink) { snapshot_->save(sink); });
    if (run_.saved_model == nullptr) return;
    run_.saved_model->write([this](io::TensorSink& sink) { snapshot_->save(sink, 1); });
  });
}

void Saver::finish() {
  if (!under_way_) return;
  release_state();
  UnderWay& save = *under_way_;
  const comm::Group& world = run_.groups.world;
  const auto wait = [&] {
    if (snapshot_) return writer_.wait();
    const checkpoint::State state = run_.engine.state();
    save.save->write(
        [&](io::TensorSink& sink) { checkpoint::save_entries(state, sink, run_.device, run_.engine.stream()); });
    if (run_.saved_model == nullptr) return;
    const checkpoint::State weights({state.entries().front()}, [] {});
    run_.saved_model->write(
        [&](io::TensorSink& sink) { checkpoint::save_entries(weights, sink, run_.device, run_.engine.stream()); });
  };
  try {
    stall([&] {
      date_ = save.save->commit(run_.config, run_.datasets.train.tokenizer(), save.position, wait);
      if (run_.saved_model != nullptr) run_.saved_model->finish();
    });
  } catch (...) {
    under_way_.reset();
    throw;
  }
  saved_step_ = save.position.step;
  saved_folder_ = save.save->folder();
  if (world.rank() == 0) {
    pruner_.start(
        [folder = saved_folder_, lineage = save.position.lineage, limit = run_.config->checkpoint.save_total_limit] {
          checkpoint::Save::prune(folder, lineage, limit);
        });
  }
  log_saved(save);
  under_way_.reset();
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
