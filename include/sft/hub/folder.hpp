// SPDX-License-Identifier: Apache-2.0
#pragma once
// Model folders: where they are, and how one is written.

#include <string>
#include <vector>

namespace sft::hub {

/// The folder that `name_or_path` means: that folder, or for the name of a model (org/name) its snapshot of `revision`
/// (a branch, tag or commit) in the local hub cache, which is HF_HUB_CACHE, HF_HOME/hub or ~/.cache/huggingface/hub. A
/// data Error says how to download what is not there.
[[nodiscard]] std::string find_model_folder(const std::string& name_or_path, const std::string& revision);

/// Whether the folder holds a config.json.
[[nodiscard]] bool is_model_folder(const std::string& folder);

/// Copies what belongs to a model beside config and weights and is there: tokenizer, chat template, generation
/// settings, licence. Returns the names of the files.
std::vector<std::string> copy_companions(const std::string& from, const std::string& to);

/// Makes FOLDER.tmp, empty, and returns its path. Refuses a FOLDER that holds anything, unless `replaces`.
[[nodiscard]] std::string begin_folder(const std::string& folder, bool replaces);
/// Gives FOLDER.tmp, with all that is in it, its name; what was there before is removed.
void finish_folder(const std::string& folder);

}  // namespace sft::hub
