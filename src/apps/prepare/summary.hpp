// SPDX-License-Identifier: Apache-2.0
#pragma once
// The summary of sft-prepare: files that were read, the fate of records, likely mistakes of their owner, and
// packed rows as a person reads them.

#include <cstdint>
#include <string>

#include "apps/common/record_inputs.hpp"
#include "sft/prepare/prepare.hpp"
#include "sft/rows/packed_dataset.hpp"
#include "sft/text/tokenizer.hpp"

namespace sft::apps {

/// The table on standard output, and warnings on standard error: of records that max_length cuts or that are dropped
/// when they are many, of roles that the model will not be asked in, of records that were skipped.
void print_summary(const prepare::PrepareSummary& summary, const prepare::PrepareOptions& options,
                   const RecordInputs& inputs);

/// The summary for programs: one JSON object on standard output.
void print_summary_json(const prepare::PrepareSummary& summary, const prepare::PrepareOptions& options,
                        const RecordInputs& inputs);

/// How long documents are, as a histogram.
void print_statistics(const prepare::PrepareSummary& summary);

/// Row `index` as text. What is trained on is green, or stands in ⟦brackets⟧ without colour, and other weights than 1
/// are written before it; what is not is dim. Every document begins with a line of its own.
[[nodiscard]] std::string preview_of(const rows::Row& row, std::int64_t index, std::int64_t num_rows,
                                     const text::Tokenizer& tokenizer, bool has_colour);

}  // namespace sft::apps
