// SPDX-License-Identifier: Apache-2.0
#pragma once
// Which options of a preparation can be, and what follows from them.

#include "sft/data/prepare.hpp"

namespace sft::data {

/// A configuration Error for options that cannot be, alone or together.
void check_options(const PrepareOptions& options);

/// `length` rounded up to a multiple of pad_to_multiple_of.
[[nodiscard]] std::int64_t padded_length(const PrepareOptions& options, std::int64_t length);

}  // namespace sft::data
