// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers of bytes as people read them.

#include <cstddef>
#include <string>

namespace sft::device {

/// "1.25 GiB", "310.0 MiB", "17 B"
[[nodiscard]] std::string format_bytes(std::size_t bytes);

}  // namespace sft::device
