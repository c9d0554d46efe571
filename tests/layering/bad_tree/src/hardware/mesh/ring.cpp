// SPDX-License-Identifier: Apache-2.0
#include "sft/comm/group.hpp"
