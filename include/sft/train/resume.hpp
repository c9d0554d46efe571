// SPDX-License-Identifier: Apache-2.0
#pragma once
// Whether a checkpoint and a configuration belong together.

#include <string>
#include <vector>

#include "sft/checkpoint/checkpoint.hpp"
#include "sft/config/config.hpp"
#include "sft/rows/row_order.hpp"

namespace sft::train {

/// In place of a fingerprint: the frozen weights are random ones, which the configuration alone decides.
inline constexpr const char* random_weights = "random";

/// What must be the same for a run to go on: the model, the seeds, and the number and length of the rows. Everything
/// else may change: the mesh, the effective batch, the schedule, the length of the run.
/// Throws a configuration Error that names the key. Pure.
void check_resume(const config::Config& config, std::int64_t num_rows, std::int64_t max_length,
                  const std::string& folder, const checkpoint::Header& saved);

/// Refuses data other than those whose order of rows the checkpoint stands in: `fingerprint` is that of
/// data.train_files. Throws a configuration Error that names both. A checkpoint of sft 0.1.0 knows none, and is let
/// through. Pure.
void check_resume_data(const std::string& fingerprint, const std::string& folder, const checkpoint::Header& saved);

/// Refuses frozen weights other than those that the adapters in the checkpoint were trained beside: `fingerprint` is
/// that of those in `origin`. Throws a data Error that names both folders. A checkpoint of an earlier version knows no
/// fingerprint: it is let through with a warning, which is returned. Pure.
[[nodiscard]] std::vector<std::string> check_resume_weights(const std::string& fingerprint, const std::string& origin,
                                                            const std::string& folder, const checkpoint::Header& saved);

/// Where the steps of a run that goes on from the checkpoint have another batch than before. Pure.
[[nodiscard]] rows::StepOrigin origin_of_resume(const config::Config& config, const std::string& folder,
                                                const checkpoint::Header& saved);

/// Sentences that name the keys of the optimizer, the precision and fp8, that may change on resume and did: key, value
/// now, value before; the batch, and at which row of the epoch it changes; and what becomes of the learning rate where
/// the run got another length and the rate depends on it. For warnings. Pure.
[[nodiscard]] std::vector<std::string> changes_on_resume(const config::Config& config, const std::string& folder,
                                                         const checkpoint::Header& saved);

}  // namespace sft::train
