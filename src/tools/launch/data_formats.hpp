// SPDX-License-Identifier: Apache-2.0
#pragma once
// Formats of data files, by the ends of their names.

#include <string>
#include <vector>

namespace sft::launch {

/// "JSON", "Parquet", "CSV" ... of a file that looks like data, also where it is compressed; empty: it does not.
[[nodiscard]] std::string format_of(const std::string& file);

/// Whether sft-prepare reads files of this format.
[[nodiscard]] bool is_read(const std::string& format);

/// Whether `datasets` would take the file for records. Packed shards and notes may lie beside them.
[[nodiscard]] bool may_be_records(const std::string& file);

/// Whether the file tells of a data set or a model and holds no records, as dataset_infos.json does.
[[nodiscard]] bool is_description(const std::string& file);

/// The format that `datasets` 5 takes for files of several: that of the most common ending, and of equally common ones
/// Parquet, then Arrow, then JSON. Empty without files.
[[nodiscard]] std::string most_common_format(const std::vector<std::string>& files);

}  // namespace sft::launch
