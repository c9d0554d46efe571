// SPDX-License-Identifier: Apache-2.0
#pragma once
// Packed rows as a person reads them.

#include <cstdint>
#include <string>

#include "sft/data/packed_dataset.hpp"
#include "sft/text/tokenizer.hpp"

namespace sft::apps {

/// Row `index` as text. What is trained on is green, or stands in ⟦brackets⟧ without colour, and other weights than 1
/// are written before it; what is not is dim. Every document begins with a line of its own.
[[nodiscard]] std::string preview_of(const data::Row& row, std::int64_t index, std::int64_t num_rows,
                                     const text::Tokenizer& tokenizer, bool has_colour);

}  // namespace sft::apps
