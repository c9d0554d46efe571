// SPDX-License-Identifier: Apache-2.0
#pragma once
// What sft-prepare says at its end: what became of the records, and what their owner may not have meant.

#include "sft/data/prepare.hpp"

namespace sft::apps {

/// The table on standard output, and warnings on standard error: of records that max_length cuts or that are dropped
/// when they are many, of roles that the model will not be asked in, of records that were skipped.
void print_summary(const data::PrepareSummary& summary, const data::PrepareOptions& options);

/// The same for programs: one JSON object on standard output.
void print_summary_json(const data::PrepareSummary& summary, const data::PrepareOptions& options);

/// How long documents are, as a histogram.
void print_statistics(const data::PrepareSummary& summary);

}  // namespace sft::apps
