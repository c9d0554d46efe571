// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "sft/core/error.hpp"

namespace sft::device {
class Stream;
}
