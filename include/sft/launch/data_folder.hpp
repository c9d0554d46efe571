// SPDX-License-Identifier: Apache-2.0
#pragma once
// A folder as a data set.

#include <string>
#include <vector>

#include "sft/launch/datasets.hpp"

namespace sft::launch {

/// The files of dataset.split in the folder, and what is left out; of `dataset` neither name nor data_files counts.
/// Throws as find_files does.
[[nodiscard]] FoundFiles files_of_folder(const std::string& folder, const Dataset& dataset,
                                         const ChoiceOptions& options, bool is_optional);

/// Throws a configuration Error for a split that is a slice or a sum of others, as `train[:50%]` and `train+test` are.
void require_whole_split(const std::string& split, const ChoiceOptions& options);

/// Moves those of `files` from found.files to found.left_out that are not of their most common format. Throws a data
/// Error where sft-prepare does not read that. `owner`: what they are of, for its message.
void leave_out_other_formats(const std::vector<std::string>& files, const std::string& owner, FoundFiles& found);

/// Throws the data Error of a split that is none of those that `owner` has.
[[noreturn]] void refuse_missing_split(const std::string& owner, const std::string& split,
                                       const std::vector<FilesOfSplit>& splits, const ChoiceOptions& options);

}  // namespace sft::launch
