// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which safetensors files a model folder has.

#include <map>
#include <string>
#include <vector>

namespace sft::hub {

struct WeightFiles {
  std::vector<std::string> paths;
  /// With an index: the path of the file that holds each tensor, by the tensor's name; else empty.
  std::map<std::string, std::string> path_of;
  std::string index;  ///< path of model.safetensors.index.json; empty: there is none
};

/// model.safetensors, or the files that the index names. Refuses a folder without either, saying what it holds instead,
/// an index that is damaged or names files outside the folder, and files that are missing.
[[nodiscard]] WeightFiles find_weight_files(const std::string& folder);

}  // namespace sft::hub
