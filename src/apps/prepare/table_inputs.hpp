// SPDX-License-Identifier: Apache-2.0
#pragma once
// Inputs of sft-prepare that are tables of other libraries: Python reads them, where pyarrow is there.

#include <memory>
#include <string>
#include <vector>

#include "sft/prepare/prepare.hpp"
#include "sft/prepare/team.hpp"

namespace sft::apps {

/// JSON lines in place of Parquet and Arrow files and of the folders that save_to_disk of `datasets` leaves. They lie
/// beside the shards in the making and go with this object.
class TableInputs {
 public:
  /// Puts a file of records for each file of a table in its place among options.inputs, in its group, and the name that
  /// the file stands for in options.stands_for. The files lie in options.output. Columns that
  /// options.example.ignore_fields names are not read. One rank of the team converts. A data Error names the file, row
  /// and column that cannot be read. Collective over the team.
  TableInputs(prepare::PrepareOptions& options, const prepare::Team& team);
  ~TableInputs();
  TableInputs(const TableInputs&) = delete;
  TableInputs& operator=(const TableInputs&) = delete;

 private:
  class Folder;

  static void put_in_place(prepare::PrepareOptions& options, const std::vector<bool>& are_tables,
                           const std::string& path);

  std::unique_ptr<Folder> folder_;  ///< of the rank that converts
};

}  // namespace sft::apps
