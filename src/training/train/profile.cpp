// SPDX-License-Identifier: Apache-2.0
#include "profile.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <span>
#include <string>
#include <system_error>

#include "chrome_trace.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/io/files.hpp"

namespace sft::train {

namespace {

/// "rank 3 (dp_replicate 0, dp_shard 1, sp 0, tp 1)"
std::string describe(const mesh::Place& place) {
  std::string at;
  for (const Axis axis : place.layout().named_axes()) {
    at.append(at.empty() ? "" : ", ").append(name_of(axis)).append(" " + std::to_string(place.rank(axis)));
  }
  return "rank " + std::to_string(place.rank()) + " (" + at + ")";
}

/// When the ranks stood at the same place: on each node, when its first rank left it. The ranks of a node share a
/// clock.
std::int64_t common_origin_ns(const comm::Session& session) {
  std::int64_t nothing = 0;
  session.world().max(std::span(&nothing, 1));
  std::int64_t negative_ns = -std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count();
  session.node().max(std::span(&negative_ns, 1));
  return -negative_ns;
}

/// A file that is to become `path`; empty where none can be made.
std::string unfinished_beside(const std::string& path) {
  try {
    return io::make_temporary_file(path);
  } catch (const Error&) {
    return "";
  }
}

}  // namespace

Profile::Profile(const Run& run, std::int64_t last_step, Progress& progress) : run_(run), progress_(progress) {
  const config::StepRange& steps = run.config->train.profile_steps;
  if (steps.is_empty() || steps.first <= last_step) return;
  log_warning("train.profile_steps = " + config::write(steps) + " comes behind the last step (" +
              std::to_string(last_step) + "): no timeline is written");
}

void Profile::begin_step(std::int64_t step) {
  const bool is_wanted = run_.config->train.profile_steps.contains(step);
  if (is_on_ && !is_wanted) write();
  if (!is_on_ && is_wanted) {
    start();
    first_step_ = step;
  }
  if (!is_on_) return;
  last_step_ = step;
  step_ = run_.device.timeline().begin({.category = "step", .what = "", .of = "step", .number = step});
}

void Profile::end_step() {
  if (step_) run_.device.timeline().end(*step_);
  step_.reset();
}

void Profile::finish() {
  if (is_on_) write();
}

void Profile::start() {
  is_on_ = true;
  run_.device.timeline().start(run_.groups.world.rank() < max_ranks ? max_ranges : 0);
  origin_ns_ = common_origin_ns(run_.session);
}

void Profile::write() {
  namespace fs = std::filesystem;
  is_on_ = false;
  step_.reset();  // of a step that was left unfinished
  const comm::Group& world = run_.groups.world;
  const device::Timeline::Noted noted = run_.device.timeline().stop();
  const int num_ranks = std::min(world.size(), max_ranks);
  const bool is_shown = world.rank() < num_ranks, is_writer = world.rank() == 0;
  auto most_left_out = static_cast<std::int64_t>(is_shown ? noted.num_left_out : 0);
  world.max(std::span(&most_left_out, 1));

  const std::string path = run_.config->train.output_dir + "/trace.json";
  const std::string unfinished = is_writer ? unfinished_beside(path) : "";
  const std::string steps = (first_step_ == last_step_ ? "step " : "steps ") + std::to_string(first_step_) +
                            (first_step_ == last_step_ ? "" : " to " + std::to_string(last_step_));
  const std::string what = steps + " on " + (num_ranks < world.size() ? "the first " : "") + plural(num_ranks, "rank");
  std::ofstream file;
  if (is_writer) {
    file.open(unfinished, std::ios::binary | std::ios::trunc);
    file << chrome_trace_begin(std::string("sft ") + version() + ", " + what + ", " + run_.device.description());
  }
  for (int rank = 0; rank < num_ranks; ++rank) {
    std::string events;
    if (world.rank() == rank) {
      events = chrome_trace_events(rank, describe(run_.place), noted.ranges, origin_ns_);
    }
    events = world.deliver(events, rank, 0);
    if (is_writer) file << (rank == 0 ? "" : ",\n") << events;
  }
  if (!is_writer) return;

  progress_.finish();
  file << chrome_trace_end();
  file.close();
  std::error_code error;
  if (file) fs::rename(unfinished, path, error);
  if (!file || error) {
    fs::remove(unfinished, error);
    log_warning("the timeline of " + steps + " was not written to " + path + ": is there space left?");
    return;
  }
  log_event("saved " + path + ": " + what);
  if (most_left_out > 0) {
    log_warning(path + " leaves out ranges (a rank notes " + std::to_string(max_ranges) + ", and had " +
                std::to_string(most_left_out) + " more): profile fewer steps");
  }
}

}  // namespace sft::train
