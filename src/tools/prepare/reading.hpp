// SPDX-License-Identifier: Apache-2.0
#pragma once
// The first half of sft-prepare: files of records -> documents.

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "prepare/output_folder.hpp"
#include "prepare/prepare_options.hpp"
#include "sft/prepare/document.hpp"
#include "sft/prepare/prepare.hpp"

namespace sft::prepare {

struct ReadDocuments {
  std::optional<DocumentStore> documents;    ///< of all records, in their order; there is one
  std::optional<DocumentStore> shared_part;  ///< of a team: keeps the file of this process's part, which all read
  std::vector<std::int64_t> num_of_group;    ///< documents of each group of inputs
};

/// team.agree(work). Where that throws, `part` is gone on every process before: its file lies in the output folder,
/// which the first process then removes if it made it. Collective over the team.
void agree_or_drop(std::optional<DocumentStore>& part, const Team& team, const std::function<void()>& work);

/// Makes documents of the records of all inputs, of which each process of the team reads a share (divide_inputs); adds
/// what became of all of them to `summary`. The first bad record is a data Error on every process.
[[nodiscard]] ReadDocuments read_documents(const PrepareOptions& options, const ExampleMaker& maker,
                                           const std::vector<InputGroup>& groups, const Team& team,
                                           const PrepareProgress& progress, PrepareSummary& summary);

}  // namespace sft::prepare
