// SPDX-License-Identifier: Apache-2.0
#pragma once
// What sft-run, a script, says about itself: its manual page and completion come from here, its --help from itself, and
// a test holds one against the other.

#include "sft/cli/manual.hpp"

namespace sft::apps {

[[nodiscard]] cli::Manual run_manual();

}  // namespace sft::apps
