// SPDX-License-Identifier: Apache-2.0
#pragma once
// Rows that sft-prepare made, kept for the next run with the same inputs, tokenizer and options.

#include <map>
#include <string>
#include <vector>

#include "sft/launch/datasets.hpp"

namespace sft::launch {

/// One call of sft-prepare, and where its rows are kept.
struct Prepared {
  std::string folder;              ///< CACHE/FINGERPRINT
  std::vector<std::string> words;  ///< of the command line, behind the program's name
  bool is_there = false;           ///< made before, whole
};

/// `cache`, or where it is empty SFT_CACHE/prepared, XDG_CACHE_HOME/sft/prepared or ~/.cache/sft/prepared.
[[nodiscard]] std::string cache_of_rows(const std::string& cache);

/// Plans the call. The fingerprint is over `options`, the place, size and time of each input file and of `program`, and
/// over the contents of what in `tokenizer_folder` (empty: none) is no weight file. Throws a data Error.
[[nodiscard]] Prepared plan_preparation(const InputFiles& inputs, const std::string& tokenizer_folder,
                                        const std::map<std::string, std::string>& options, const std::string& program,
                                        const std::string& cache);

/// Whether the tokenizer of the folder of a model has a token of this text.
[[nodiscard]] bool has_token(const std::string& folder, const std::string& token);

/// Writes down that the rows are whole, and which command made them.
void mark_prepared(const Prepared& prepared);

/// Removes what an interrupted call left in the folder.
void remove_unfinished(const Prepared& prepared);

}  // namespace sft::launch
