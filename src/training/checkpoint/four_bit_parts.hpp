// SPDX-License-Identifier: Apache-2.0
#pragma once
// Matrices that are kept in 4 bits, made of those of a source.

#include "sft/checkpoint/loaded_weights.hpp"
#include "sft/checkpoint/state.hpp"
#include "sft/device/device.hpp"
#include "sft/io/tensor_source.hpp"

namespace sft::checkpoint {

/// Fills an entry in 4 bits with what this rank holds of its matrices: the codes of `source` where it has such, else
/// those that bitsandbytes would make of its numbers. With nested scales a rank reads whole matrices, for they follow
/// from all of one; else the rows that it has a part of. `seen` gets the numbers of its own part. Refuses weights that
/// are no finite numbers, and codes of another form: a data Error. Local; returns when they are there.
void load_four_bits(const io::TensorSource& source, const Entry& entry, device::Device& device, device::Stream& stream,
                    LoadedWeights& seen);

}  // namespace sft::checkpoint
