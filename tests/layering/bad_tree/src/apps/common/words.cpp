// SPDX-License-Identifier: Apache-2.0
#include "apps/ask/options.hpp"  // refused
#include "apps/common/words.hpp"
