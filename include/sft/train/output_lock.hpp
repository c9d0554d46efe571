// SPDX-License-Identifier: Apache-2.0
#pragma once
// One run at a time in an output_dir.

#include <string>

#include "sft/io/file_lock.hpp"

namespace sft::train {

/// The folder belongs to this process for the lifetime of the object, by a lock on OUTPUT_DIR/run.lock. Held by rank 0.
/// The file stays behind and says who had the folder last.
class OutputLock {
 public:
  /// Waits some seconds for a run that is just ending, then throws a data Error that names the process which has the
  /// folder, its host, and since when. Where the file system has no locks, a warning is all. `output_dir` exists.
  explicit OutputLock(const std::string& output_dir);

  /// Whether the lock is still that of the folder: not if somebody removed it, and perhaps made it anew.
  [[nodiscard]] bool is_in_place() const;

  /// Notes in the file how the run ended: "done", "stopped" or "failed", and a sentence. For sft-inspect status.
  void note_end(const std::string& how) { lock_.add_line(how); }

 private:
  io::FileLock lock_;
};

}  // namespace sft::train
