// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether a checkpoint and a configuration belong together.

#include <string>
#include <vector>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/config/config.hpp"

namespace sft::train {

/// What must be the same for a resumed run to equal an uninterrupted one: the model, the seeds, the effective batch,
/// and the number and length of the rows. Everything else may change: the mesh, the schedule, the length of the run.
/// `config` is validated. Throws a configuration Error that names the key. Pure.
void check_resume(const config::Config& config, std::int64_t num_rows, std::int64_t max_length,
                  const std::string& folder, const checkpoint::Header& saved);

/// Refuses data other than those whose order of rows the checkpoint stands in: `fingerprint` is that of
/// data.train_files. Throws a configuration Error that names both. A checkpoint of sft 0.1.0 knows none, and is let
/// through. Pure.
void check_resume_data(const std::string& fingerprint, const std::string& folder, const checkpoint::Header& saved);

/// Sentences that name the keys of the optimizer, and the precision, that may change on resume and did: key, value now,
/// value before. For warnings. Pure.
[[nodiscard]] std::vector<std::string> changes_on_resume(const config::Config& config, const std::string& folder,
                                                         const checkpoint::Header& saved);

}  // namespace sft::train
