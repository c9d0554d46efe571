// SPDX-License-Identifier: Apache-2.0
#pragma once
// Errors that end a run, and the exit status each kind maps to.

#include <stdexcept>
#include <string>

#include "sft/core/source_location.hpp"

namespace sft {

/// Exit status of every program of the project (a contract with job scripts).
enum class ExitStatus : int {
  done = 0,
  failure = 1,        ///< anything without a status of its own
  configuration = 2,  ///< command line, .ini file, impossible mesh
  data = 3,           ///< packed shards, checkpoints, input files
  numerical = 4,      ///< NaN or Inf in loss or gradient norm
  stopped = 75,       ///< stopped by a signal after saving: run again to go on
  hang = 76,          ///< a rank stood still, and the others waited for it: run again to go on
};

/// An error with the grammar `problem (why it is one): what to do`.
class Error : public std::runtime_error {
 public:
  /// One printable line: control characters of the parts, which may hold names from files, become \xNN and \n.
  Error(ExitStatus status, const std::string& problem, const std::string& why, const std::string& what_to_do);
  /// Rebuilds an error from a finished message, e.g. one received from another rank.
  Error(ExitStatus status, const std::string& message);

  [[nodiscard]] ExitStatus status() const noexcept { return status_; }

 private:
  ExitStatus status_;
};

/// Shorthands for the two kinds that users meet most.
[[noreturn]] void throw_config_error(const std::string& problem, const std::string& why, const std::string& what_to_do);
[[noreturn]] void throw_data_error(const std::string& problem, const std::string& why, const std::string& what_to_do);

/// `FILE:LINE`, the file from src, include or tests on.
[[nodiscard]] std::string text_of(const SourceLocation& place);

}  // namespace sft
