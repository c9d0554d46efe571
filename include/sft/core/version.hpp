// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace sft {

/// "MAJOR.MINOR.PATCH" of the project, from CMake.
[[nodiscard]] const char* version() noexcept;

}  // namespace sft
