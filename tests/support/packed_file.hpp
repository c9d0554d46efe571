// SPDX-License-Identifier: Apache-2.0
#pragma once
// Packed data shards for tests that run the whole program.

#include <cstdint>
#include <string>
#include <vector>

#include "sft/rows/packed_dataset.hpp"

namespace sft::test {

/// Writes `rows`, all of one length, as a packed HDF5 shard.
void write_packed_file(const std::string& path, const std::vector<rows::Row>& rows, std::int64_t vocab_size);

}  // namespace sft::test
