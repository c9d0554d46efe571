#pragma once
// What a file or folder is that a user gave where another kind belongs: a YAML file for an .ini, Parquet for JSON
// lines, a hub folder for a checkpoint. One place, so that every program says the same.

#include <string>

namespace sft::io {

/// What belongs at a path.
enum class Expected { configuration, json_lines, packed_shard, checkpoint };

/// Throws a data Error that says what is at `path` and what to do, by names and first bytes, when that is known to be of
/// another kind. Does nothing when there is no such path, or nothing that is known: the reader's own error tells more.
void require_kind(const std::string& path, Expected expected);

}  // namespace sft::io
