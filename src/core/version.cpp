// SPDX-License-Identifier: Apache-2.0
#include "sft/core/version.hpp"

namespace sft {

const char* version() noexcept { return SFT_VERSION; }

}  // namespace sft
