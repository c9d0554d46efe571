// SPDX-License-Identifier: Apache-2.0
#pragma once
// The header of a safetensors file.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/io/raw_file.hpp"

namespace sft::hub {

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
