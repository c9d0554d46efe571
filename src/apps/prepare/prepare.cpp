// SPDX-License-Identifier: Apache-2.0
// Turns files of records into packed HDF5 shards for training, alone or on several ranks.
//
//   sft-prepare --input train.jsonl --output data/train
//   sft-prepare --input 'part-*.jsonl' --output data/train --max_length 4096 --packing_strategy bfd_split
//   sft-prepare --input chats.jsonl --output data/chats --model_name_or_path models/smollm2 --assistant_only_loss
//   sft-prepare --input data.jsonl.gz --output data/train --eval_split 0.05 --preview 3
//   mpirun -np 4 sft-prepare --input 'part-*.jsonl' --output data/train

#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "apps/common/prepare_options.hpp"
#include "apps/common/record_inputs.hpp"
#include "sft/comm/group.hpp"
#include "sft/comm/launcher.hpp"
#include "sft/comm/session.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/core/status_line.hpp"
#include "sft/core/stop_signals.hpp"
#include "sft/hub/folder.hpp"
#include "sft/hub/model_config.hpp"
#include "sft/machine/node.hpp"
#include "sft/prepare/prepare.hpp"
#include "sft/rows/packed_dataset.hpp"
#include "sft/text/tokenizer.hpp"
#include "summary.hpp"
#include "table_inputs.hpp"

namespace {

using sft::apps::PrepareCommand;
using sft::prepare::PrepareOptions;
using sft::prepare::PrepareSummary;
using sft::prepare::Team;

/// One line on standard error, redrawn at every full percent; silent when that is no terminal.
class ProgressBar {
 public:
  void draw(const char* stage, std::int64_t done, std::int64_t total) {
    const auto percent = static_cast<int>(total == 0 ? 100 : done * 100 / total);
    if (percent == percent_ && stage == stage_) return;
    percent_ = percent;
    stage_ = stage;
    const std::string filled(percent * width_ / 100, '#');
    line_.show(fmt::format("{} [{:{}}] {} %", stage_, filled, width_, percent));
  }

  void clear() {
    line_.clear();
    percent_ = -1;
  }

 private:
  static constexpr int width_ = 40;
  sft::StatusLine line_{stderr, isatty(STDERR_FILENO) != 0};
  int percent_ = -1;
  std::string stage_;
};

/// The ranks of one mpirun.
class TeamOfRanks : public Team {
 public:
  explicit TeamOfRanks(const sft::comm::Group& world) : world_(world) {}

  [[nodiscard]] int rank() const override { return world_.rank(); }
  [[nodiscard]] int size() const override { return world_.size(); }
  [[nodiscard]] std::vector<std::string> all_gather(const std::string& text) const override {
    std::vector<std::string> texts(world_.size());
    for (int rank = 0; rank < size(); ++rank) {  // one by one: all together may be more than MPI counts
      texts[rank] = broadcast(text, rank);
    }
    return texts;
  }
  void agree(const std::function<void()>& work) const override {
    world_.agree([&] {
      try {
        work();
      } catch (const sft::Error& error) {
        throw sft::comm::SharedError(error.status(), error.what());  // of the data, not of a rank
      }
    });
  }

 private:
  /// The text of `rank`, in parts that MPI can count.
  [[nodiscard]] std::string broadcast(const std::string& text, int rank) const {
    constexpr std::size_t part_bytes = std::size_t{64} << 20;
    std::array<std::int64_t, 1> size{std::ssize(text)};
    world_.broadcast(std::span<std::int64_t>(size), rank);
    std::string whole;
    while (std::ssize(whole) < size[0]) {
      std::string part = this->rank() == rank ? text.substr(whole.size(), part_bytes) : "";
      world_.broadcast(part, rank);
      whole += part;
    }
    return whole;
  }

  const sft::comm::Group& world_;
};

/// Thrown out of the work when a signal asks to stop, so that the unfinished file goes. One of several ranks ends at
/// once, and its launcher ends the others.
struct Stopped {};

PrepareSummary prepare_with_progress(const PrepareOptions& options, const sft::StopSignals& signals, const Team& team) {
  ProgressBar bar;
  const auto progress = [&](const char* stage, std::int64_t done, std::int64_t total) {
    if (signals.received() != 0 && team.size() > 1) signals.end_process();
    if (signals.received() != 0) throw Stopped();
    if (total > 0 && team.rank() == 0) bar.draw(stage, done, total);
  };
  return sft::prepare::prepare(options, progress, team);
}

/// The first rows for training, read back from the files.
void print_preview(const PrepareSummary& summary, std::int64_t num_rows) {
  if (num_rows <= 0) return;
  const bool has_colour = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  const sft::rows::PackedDataset dataset(summary.train().files);
  const std::unique_ptr<sft::text::Tokenizer> tokenizer = sft::text::make_tokenizer(dataset.tokenizer());
  for (std::int64_t row = 0; row < std::min(num_rows, dataset.num_rows()); ++row) {
    sft::log_styled(sft::apps::preview_of(dataset.read_row(row), row, dataset.num_rows(), *tokenizer, has_colour));
  }
}

/// Rows for a model that cannot be trained are of no use here: said before the work, not after it.
void warn_of_untrained_model(const PrepareCommand& command, const Team& team) {
  const std::string& folder = command.options.text.tokenizer;
  std::error_code ignored;
  if (command.model.empty() || team.rank() != 0) return;
  if (!std::filesystem::exists(std::filesystem::path(folder) / "config.json", ignored)) return;
  try {
    (void)sft::hub::read_model_config(folder);
  } catch (const sft::Error& error) {
    sft::log_warning(fmt::format("sft cannot train this model: {}", error.what()));
  }
}

int run(const std::vector<std::string>& arguments, const Team& team) {
  std::optional<PrepareCommand> command;
  sft::apps::RecordInputs records;
  team.agree([&] {
    command = sft::apps::read_prepare_options(arguments);
    if (!command) return;
    PrepareOptions& options = command->options;
    records = sft::apps::find_records(command->records);
    options.inputs = records.files;
    options.input_groups = records.groups;
    if (!command->model.empty()) {
      options.text.tokenizer = sft::hub::find_model_folder(command->model, command->model_revision);
    }
    if (options.num_threads == 0 && team.size() > 1) {  // ranks on one node share its cores
      options.num_threads =
          sft::machine::num_threads_of_rank(sft::machine::cores_of_this_process(), sft::comm::num_local_ranks());
    }
  });
  if (command) {
    warn_of_untrained_model(*command, team);
    const sft::apps::TableInputs tables(command->options, team);
    const sft::StopSignals signals({SIGINT, SIGTERM, SIGHUP});
    try {
      const PrepareSummary summary = prepare_with_progress(command->options, signals, team);
      sft::ignore_stop_signals(static_cast<int>(sft::ExitStatus::done));
      if (team.rank() != 0) return static_cast<int>(sft::ExitStatus::done);
      if (command->is_json) {
        sft::apps::print_summary_json(summary, command->options, records);
      } else {
        sft::apps::print_summary(summary, command->options, records);
        if (command->shows_statistics) sft::apps::print_statistics(summary);
        print_preview(summary, command->num_preview_rows);
      }
    } catch (const Stopped&) {
      signals.end_process();
    }
  }
  return static_cast<int>(sft::ExitStatus::done);
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  if (sft::comm::num_launched_ranks() > 1) {
    return sft::comm::run_program(
        argc, argv, [&](sft::comm::Session& session) { return run(arguments, TeamOfRanks(session.world())); });
  }
  sft::listen_for_signals();
  return sft::run_alone([&] { return run(arguments, Team()); });
}
