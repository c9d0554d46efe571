// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "sft/config/config.hpp"  // upward: refused
#include "sft/core/dtype.hpp"
