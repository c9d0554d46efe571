// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>

namespace sft::device {

/// That of Device::fill_zero on a LaunchTape: kind 0, which no op has.
[[nodiscard]] inline std::array<std::uint64_t, 3> key_of_fill_zero(const void* destination, std::size_t bytes) {
  return {0, reinterpret_cast<std::uintptr_t>(destination), bytes};
}

}  // namespace sft::device
