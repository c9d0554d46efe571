// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names and lifetime of checkpoint folders: checkpoint-000100 is complete, checkpoint-000100.tmp is not.

#include <cstdint>
#include <optional>
#include <string>

namespace sft::checkpoint {

/// Start of the names of one save's shard files, "shard-001400-0123456789abcdef-": the step and a random
/// number. HDF5 looks for the files of a virtual dataset in other folders, too (HDF5_VDS_PREFIX, the current one), and
/// must not find those of another save there.
[[nodiscard]] std::string new_shard_prefix(std::int64_t step);
/// "shard-001400-0123456789abcdef-00000.h5"; up to November 2026 names were "shard-00000.h5" in all checkpoints.
[[nodiscard]] std::string shard_file_name(const std::string& prefix, int rank);
/// "FOLDER/checkpoint.h5"
[[nodiscard]] std::string index_path(const std::string& folder);
/// "FOLDER/tensors.h5"
[[nodiscard]] std::string tensor_index_path(const std::string& folder);
/// The folder that holds FOLDER: "." where its path names none.
[[nodiscard]] std::string parent_of(const std::string& folder);
/// FOLDER.tmp
[[nodiscard]] std::string temporary_path(const std::string& folder);
/// Whether the name of the folder says that it is no complete checkpoint.
[[nodiscard]] bool is_temporary(const std::string& folder);
/// The step of a complete checkpoint's folder name.
[[nodiscard]] std::optional<std::int64_t> step_of(const std::string& folder);

/// Gives a former checkpoint, set aside for a new one that never came, its name back.
void recover_folders(const std::string& output_dir);
/// Makes the empty temporary folder of the checkpoint `folder`. What is there already is removed where it is of a
/// broken save, that is, a folder with nothing but files of a checkpoint; anything else is set aside (io::set_aside).
void make_temporary_folder(const std::string& folder);
/// The same, after it recovered or removed what broken saves left beside it. Files and folders that may be of others
/// stay, whatever their names.
void begin_folder(const std::string& folder);
/// Removes what a save wrote to the temporary folder of the checkpoint `folder`, as far as that goes.
void discard_folder(const std::string& folder);
/// Gives the finished temporary folder its name and syncs the parent. A former checkpoint of that name goes in the same
/// instant; where the file system cannot exchange names, it is renamed first, and recover_folders() brings it back
/// after a crash. A folder of that name with other files than a checkpoint's is set aside, not removed.
void commit_folder(const std::string& folder);
/// Removes a complete checkpoint: out of the list first, so that one removed by half is never taken for whole. Files in
/// it that are no checkpoint's stay, in a folder of that name.
void retire_folder(const std::string& folder);

}  // namespace sft::checkpoint
