// SPDX-License-Identifier: Apache-2.0
#pragma once
// Inputs of sft-prepare that are tables of other libraries: Python reads them, where pyarrow is there.

#include <filesystem>
#include <vector>

#include "sft/data/prepare.hpp"
#include "sft/data/team.hpp"

namespace sft::apps {

/// JSON lines in place of Parquet and Arrow files, of folders that hold Parquet files, and of those that save_to_disk
/// of `datasets` leaves. They lie beside the shards in the making and go with this object.
class TableInputs {
 public:
  /// Puts a folder with a file of records for each file of the table in place of each table among options.inputs, and
  /// the names that these stand for in options.stands_for. The folders lie in options.output. Columns that
  /// options.example.ignore_fields names are not read. One rank of the team converts. A data Error names the file, row
  /// and column that cannot be read. Collective over the team.
  TableInputs(data::PrepareOptions& options, const data::Team& team);
  ~TableInputs();
  TableInputs(const TableInputs&) = delete;
  TableInputs& operator=(const TableInputs&) = delete;

 private:
  std::vector<std::filesystem::path> folders_;  ///< that this process made
};

}  // namespace sft::apps
