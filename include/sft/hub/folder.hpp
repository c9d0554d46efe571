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

/// The snapshot of a data set (org/name) in the same cache, of its branch main. A data Error says how to download what
/// is not there.
[[nodiscard]] std::string find_dataset_folder(const std::string& name);

/// Whether the folder holds a config.json.
[[nodiscard]] bool is_model_folder(const std::string& folder);

/// The dtype that transformers loads the folder's weights in with dtype = auto: that of config.json, else that of the
/// first tensor of floats; "float32", "bfloat16" ...
[[nodiscard]] std::string dtype_of_weights(const std::string& folder);

/// Copies what belongs to a model beside config and weights and is there: tokenizer, chat template, generation
/// settings, licence, over what is there by these names; of a tokenizer so that both versions of transformers read it
/// (make_tokenizer_readable). Returns the names of the files.
std::vector<std::string> copy_companions(const std::string& from, const std::string& to);

/// A folder that appears whole or not at all: what belongs into it is written to FOLDER.tmp. Where one takes the place
/// of another, the two exchange their names in one instant: at any moment, a kill included, FOLDER is one whole folder.
/// Where the file system cannot exchange names, FOLDER is called FOLDER.former.tmp for a moment, and recover() brings
/// it back. A file `.sft-unfinished` marks what may be removed; what else lies at these names is set aside.
class NewFolder {
 public:
  /// Recovers, then makes FOLDER.tmp, with the mark alone. Refuses a FOLDER that holds anything, unless `replaces`.
  NewFolder(const std::string& folder, bool replaces);
  /// Removes FOLDER.tmp, unless it was finished.
  ~NewFolder();
  NewFolder(const NewFolder&) = delete;
  NewFolder& operator=(const NewFolder&) = delete;

  /// FOLDER.tmp, whose files the caller has synced.
  [[nodiscard]] const std::string& temporary() const { return temporary_; }
  /// Gives it its name. What was there before is removed if it is a model or an adapter with what belongs beside it;
  /// if it holds anything else, it is set aside (io::set_aside).
  void finish();

  /// After a kill: gives FOLDER its name back where it has lost it, and removes what a NewFolder left beside it.
  static void recover(const std::string& folder);

 private:
  std::string target_, temporary_;
};

}  // namespace sft::hub
