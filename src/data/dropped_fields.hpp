// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fields of records that their owner does not want.

#include <string>
#include <vector>

#include "data/record.hpp"

namespace sft::data {

/// Takes the fields of these names out of the record and of the messages in its lists. Those that hold a value are
/// counted as dropped: "tools", "messages[].reasoning_content".
void drop_fields(Json& record, const std::vector<std::string>& names, RecordCensus& census);

}  // namespace sft::data
