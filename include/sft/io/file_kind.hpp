// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a file or folder is that a user gave where another kind belongs: a YAML file for an .ini, Parquet for JSON
// lines, a hub folder for a checkpoint. One place, so that every program says the same.

#include <string>

namespace sft::io {

/// What belongs at a path.
enum class Expected { configuration, json_lines, packed_shard, checkpoint, model };

/// Looks at names and first bytes. When `path` is known to be of another kind, throws a data Error that says what it is
/// and what to do. Does nothing where the path is missing or its kind is unknown: the reader's own error tells more.
void require_kind(const std::string& path, Expected expected);

/// require_kind() for an input without a path, such as standard input, by its first bytes; messages call it `name`.
void require_kind_of_bytes(const std::string& name, const std::string& start, Expected expected);
/// Whether a regular file begins as Parquet and Arrow files do, whatever its name.
[[nodiscard]] bool is_table(const std::string& path);

}  // namespace sft::io
