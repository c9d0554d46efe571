#pragma once
#include <string>

#include "sft/config/config.hpp"  // upward: refused
#include "sft/core/dtype.hpp"
