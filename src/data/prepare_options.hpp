// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which options of a preparation can be, and what follows from them.

#include "sft/data/prepare.hpp"

namespace sft::data {

/// A configuration Error for options that cannot be, alone or together.
void check_options(const PrepareOptions& options);

/// `length` padded to what pad_to_multiple_of and sp_size ask for.
[[nodiscard]] std::int64_t padded_length(const PrepareOptions& options, std::int64_t length);

}  // namespace sft::data
