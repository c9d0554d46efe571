// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where the numbers of a run go beside metrics.jsonl (train.report_to). On rank 0.

#include <memory>
#include <string>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/report/event_file.hpp"

namespace sft::train {

/// What other programs draw and watch, all of it made from the lines of metrics.jsonl, so that each has the same
/// points: of a resumed run those before the restart once. The run does not end for what cannot be written here; a
/// warning says it once.
class Reports {
 public:
  /// The run as it starts: its name, the whole texts of resolved.ini and of metrics.jsonl.
  struct Beginning {
    std::string run_id, resolved_ini, metrics;
  };
  /// Writes what metrics.jsonl has of the run so far. In the folder `output_dir` of `config`: tensorboard/RUN_ID/ and
  /// metrics.prom.
  Reports(const config::Train& config, const Beginning& run);
  /// One more line of metrics.jsonl, without its newline.
  void add(const std::string& line);

 private:
  void write_events(const std::string& line);
  void write_exposition(const std::string& line);
  /// work(), unless something went wrong before; what goes wrong is a warning.
  template <class Work>
  void attempt(const Work& work);

  std::string run_id_, exposition_path_;  ///< the path: empty where Prometheus is not asked for
  std::unique_ptr<report::EventFile> events_;
  std::vector<report::Scalar> evaluation_;  ///< the last one, for Prometheus
  report::Moment last_;                     ///< of the last line; evaluations tell no time
  bool has_failed_ = false;
};

}  // namespace sft::train
