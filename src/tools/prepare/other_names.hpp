// SPDX-License-Identifier: Apache-2.0
#pragma once
// Published data sets whose meaning is clear, but for the names of their fields.

#include "prepare/record.hpp"

namespace sft::prepare {

/// Refuses a record of one of these, with the options that read all of it. Returns where it is none.
void refuse_other_names(const Json& record);

}  // namespace sft::prepare
