#pragma once
#include "sft/core/error.hpp"

namespace sft::device {
class Stream;
}
