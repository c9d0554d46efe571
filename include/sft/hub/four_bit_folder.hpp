// SPDX-License-Identifier: Apache-2.0
#pragma once
// Model folders whose matrices are in 4 bits, as bitsandbytes and transformers write them (`load_in_4bit`).

#include <cstdint>
#include <string>

#include "sft/core/four_bits.hpp"

namespace sft::hub {

/// What was written.
struct FourBitFolder {
  std::int64_t num_matrices = 0;  ///< those in 4 bits
  std::uint64_t size_bytes = 0;   ///< of all tensors
};

/// Writes config.json and model.safetensors of the model folder `from` to the folder `to`: the matrices of blocks'
/// linear layers in 4 bits, as bitsandbytes makes them of the numbers in the files, all other tensors byte by byte.
/// Matrices of experts stay as they are. One file; a matrix and what it becomes are in memory at a time. Refuses a
/// folder that is quantized already, one without such matrices, rows that are no whole blocks, and numbers that are not
/// finite. One process.
FourBitFolder write_four_bit_folder(const std::string& from, const FourBitForm& form, const std::string& to);

}  // namespace sft::hub
