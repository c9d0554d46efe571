// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which safetensors files a model folder has, and which tensors they hold.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/hub/file_layout.hpp"
#include "sft/io/raw_file.hpp"

namespace sft::hub {

/// The paths of the files with the weights: model.safetensors, or those that the index names. Refuses a folder without
/// either, saying what it holds instead, an index that is damaged or names files outside the folder, and files that are
/// missing.
[[nodiscard]] std::vector<std::string> find_weight_files(const std::string& folder);
/// The path of adapter_model.safetensors; refuses a folder without it.
[[nodiscard]] std::vector<std::string> find_adapter_files(const std::string& folder);

/// What the files of FOLDER with these tensors follow, by its config.json; the default where it has none.
[[nodiscard]] FileLayout file_layout_of(const std::string& folder, const std::vector<FileTensor>& files);

/// Whether the weights of a model of several towers have a head of their own.
[[nodiscard]] bool holds_tower_head(const std::string& folder);

/// A tensor of a safetensors file.
struct StoredTensor {
  std::string name;
  std::string dtype;  ///< "F32", "BF16" ..., as the file says
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0, end = 0;  ///< bytes of the file
};

/// The tensors of a file, in the order of their bytes. Refuses a file that is no whole safetensors file, with a data
/// Error that names it, and the tensor where one is concerned: a header that is too long, no such JSON or has a name
/// twice; bytes that are missing, left over or used twice; a place that does not fit dtype and shape.
[[nodiscard]] std::vector<StoredTensor> read_safetensors_header(const io::RawFile& file);

}  // namespace sft::hub
