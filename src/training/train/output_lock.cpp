// SPDX-License-Identifier: Apache-2.0
#include "sft/train/output_lock.hpp"

#include <chrono>

#include "sft/core/error.hpp"
#include "sft/core/log.hpp"

namespace sft::train {

namespace {

/// The ranks of a run whose mpirun was killed notice it within about a second.
constexpr std::chrono::seconds patience{5};

}  // namespace

OutputLock::OutputLock(const std::string& output_dir) : lock_(output_dir + "/run.lock", patience) {
  if (lock_.is_held()) return;
  if (lock_.is_held_by_another()) {
    throw_data_error("another run is writing to " + output_dir, lock_.holder() + " holds " + lock_.path(),
                     "wait for it, stop it, or set another train.output_dir");
  }
  log_warning("cannot lock " + lock_.path() + " (" + lock_.reason() +
              "): nothing keeps a second run from writing to this folder at the same time");
}

bool OutputLock::is_in_place() const { return lock_.is_in_place(); }

}  // namespace sft::train
