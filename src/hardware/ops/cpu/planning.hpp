// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the CPU backend needs for shapes that are only planned: pure functions.

#include <cstddef>
#include <cstdint>

#include "ops/cpu/isa.hpp"
#include "sft/ops/shapes.hpp"

namespace sft::ops::cpu {

/// See ops::workspace_bytes.
[[nodiscard]] std::size_t workspace_bytes(int num_threads, const Shapes& shapes, const AttentionNeeds& attention = {});

/// See ops::product_copies_bytes; of a processor whose best instruction set is `isa`.
[[nodiscard]] std::size_t product_copies_bytes(Isa isa, int num_threads, const Shapes& shapes);

/// See ops::loss_chunk_tokens.
[[nodiscard]] std::int64_t loss_chunk_tokens(const Shapes& shapes);

}  // namespace sft::ops::cpu
