// SPDX-License-Identifier: Apache-2.0
#pragma once
// Fields of records that nothing reads, though their names say that they change what is trained on.

#include "sft/prepare/example.hpp"

namespace sft::apps {

/// Warns of each of `ignored`, names as RecordCensus has them, that seems to decide on the loss or to belong to the
/// text.
void warn_of_unread_fields(const prepare::NameCounts& ignored);

}  // namespace sft::apps
