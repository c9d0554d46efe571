#pragma once
// Names and lifetime of checkpoint folders: checkpoint-000100 is complete, checkpoint-000100.tmp is not.

#include <cstdint>
#include <optional>
#include <string>

namespace sft::checkpoint {

/// "shard-00000.h5"
[[nodiscard]] std::string shard_name(int rank);
/// "FOLDER/checkpoint.h5"
[[nodiscard]] std::string index_path(const std::string& folder);
/// FOLDER.tmp
[[nodiscard]] std::string temporary_path(const std::string& folder);
/// The step of a complete checkpoint's folder name.
[[nodiscard]] std::optional<std::int64_t> step_of(const std::string& folder);

/// Makes the empty temporary folder of the checkpoint `folder`, and removes what broken saves left beside it.
void begin_folder(const std::string& folder);
/// Gives the finished temporary folder its name, in place of a former checkpoint of that name, and syncs the parent.
void commit_folder(const std::string& folder);
/// Removes the oldest complete checkpoints beyond the newest `limit` (0: none), never `folder` itself.
void prune(const std::string& folder, std::int64_t limit);

}  // namespace sft::checkpoint
