// SPDX-License-Identifier: Apache-2.0
// Turns files of records into packed HDF5 shards for training. Runs alone, without mpirun.
//
//   sft-prepare --input train.jsonl --output data/train
//   sft-prepare --input 'part-*.jsonl' --output data/train --max_length 4096 --packing_strategy bfd_split
//   sft-prepare --input chats.jsonl --output data/chats --model_name_or_path models/smollm2 --assistant_only_loss
//   sft-prepare --input data.jsonl.gz --output data/train --eval_split 0.05 --preview 3

#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "prepare_options.hpp"
#include "prepare_summary.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/core/status_line.hpp"
#include "sft/core/stop_signals.hpp"
#include "sft/data/packed_dataset.hpp"
#include "sft/data/prepare.hpp"
#include "sft/hub/folder.hpp"
#include "sft/text/tokenizer.hpp"

namespace {

using sft::apps::PrepareCommand;
using sft::data::PrepareOptions;
using sft::data::PrepareSummary;

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

/// Thrown out of the work when a signal asks to stop, so that unfinished files go.
struct Stopped {};

PrepareSummary prepare_with_progress(const PrepareOptions& options, const sft::StopSignals& signals) {
  ProgressBar bar;
  return sft::data::prepare(options, [&](const char* stage, std::int64_t done, std::int64_t total) {
    if (signals.received() != 0) throw Stopped();
    if (total > 0) bar.draw(stage, done, total);
  });
}

/// The first rows for training, read back from the files.
void print_preview(const PrepareSummary& summary, std::int64_t num_rows) {
  if (num_rows <= 0) return;
  const bool has_colour = isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
  const sft::data::PackedDataset dataset(summary.train().files);
  const std::unique_ptr<sft::text::Tokenizer> tokenizer = sft::text::make_tokenizer(dataset.tokenizer());
  for (std::int64_t row = 0; row < std::min(num_rows, dataset.num_rows()); ++row) {
    sft::log_styled(sft::apps::preview_of(dataset.read_row(row), row, dataset.num_rows(), *tokenizer, has_colour));
  }
}

int run(int argc, char** argv) {
  std::optional<PrepareCommand> command =
      sft::apps::read_prepare_options(std::vector<std::string>(argv + 1, argv + argc));
  if (command) {
    if (!command->model.empty()) {
      command->options.text.tokenizer = sft::hub::find_model_folder(command->model, command->model_revision);
    }
    const sft::StopSignals signals({SIGINT, SIGTERM, SIGHUP});
    try {
      const PrepareSummary summary = prepare_with_progress(command->options, signals);
      sft::ignore_stop_signals(static_cast<int>(sft::ExitStatus::done));
      if (command->is_json) {
        sft::apps::print_summary_json(summary, command->options);
      } else {
        sft::apps::print_summary(summary, command->options);
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
  sft::listen_for_signals();
  return sft::run_alone([&] { return run(argc, argv); });
}
