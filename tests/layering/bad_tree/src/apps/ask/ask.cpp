// SPDX-License-Identifier: Apache-2.0
#include "apps/ask/options.hpp"
#include "apps/common/words.hpp"
#include "apps/plan/options.hpp"  // another program: refused
#include "options.hpp"
#include "sft/core/error.hpp"
