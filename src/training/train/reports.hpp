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
  /// The run has ended, well or not: Prometheus is told that it runs no more. A run that is killed tells nothing.
  void end();

 private:
  void write_events(const std::string& line);
  void expose(const std::string& line);
  void write_exposition() const;
  /// work(), unless something went wrong before; what goes wrong is a warning.
  template <class Work>
  void attempt(const Work& work);

  std::string run_id_, exposition_path_;  ///< the path: empty where Prometheus is not asked for
  std::unique_ptr<report::EventFile> events_;
  bool is_running_ = true;                         ///< this and the next three for Prometheus
  double line_time_s_;                             ///< of the last logged step, before it of the start; since 1970
  std::vector<report::Scalar> step_, evaluation_;  ///< the last ones
  report::Moment last_;                            ///< of the last line; evaluations tell no time
  bool has_failed_ = false;
};

}  // namespace sft::train
