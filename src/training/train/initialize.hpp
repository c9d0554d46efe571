// SPDX-License-Identifier: Apache-2.0
#pragma once
// Random initial weights that do not depend on the mesh.

#include <cstdint>

#include "sft/ops/backend.hpp"
#include "sft/parallel/shard_map.hpp"

namespace sft::train {

/// Fills the rank shard `parameters` (float32 or bf16): matrices from a normal distribution of deviation `stddev` by
/// (seed, name, element), norms with 1, biases and padding with 0, as Hugging Face initializes these models; adapters
/// as PEFT does (Init::kaiming, by_rows, 0). `keeps_copies`: copies of a model's parameters (Parameter::copy_of) are
/// left as they are. Not collective.
void initialize_parameters(const parallel::ShardMap& shard_map, std::uint64_t seed, double stddev, Tensor parameters,
                           ops::Backend& backend, bool keeps_copies = false);

}  // namespace sft::train
