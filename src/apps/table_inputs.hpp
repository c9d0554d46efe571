// SPDX-License-Identifier: Apache-2.0
#pragma once
// Inputs of sft-prepare that are tables of other libraries: Python reads them, where pyarrow is there.

#include <string>
#include <vector>

#include "sft/data/team.hpp"

namespace sft::apps {

/// JSON lines in place of Parquet and Arrow files, of folders that hold Parquet files, and of those that save_to_disk
/// of `datasets` leaves. They lie beside the shards in the making and go with this object.
class TableInputs {
 public:
  /// Puts in `inputs` the file of records in place of each table, which lies in the folder `output`. One rank of the
  /// team converts. A data Error where Python cannot read one. Collective over the team.
  TableInputs(std::vector<std::string>& inputs, const std::string& output, const data::Team& team);
  ~TableInputs();
  TableInputs(const TableInputs&) = delete;
  TableInputs& operator=(const TableInputs&) = delete;

 private:
  std::vector<std::string> files_;  ///< that this process made
};

}  // namespace sft::apps
