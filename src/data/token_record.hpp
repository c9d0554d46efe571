// SPDX-License-Identifier: Apache-2.0
#pragma once
// Records that are token ids already.

#include <cstdint>

#include "data/record.hpp"

namespace sft::data {

/// {"input_ids": [...]}: all is trained on, or the tokens whose "labels" are not -100, or those whose "completion_mask"
/// (obeyed with completion_only_loss) and "assistant_masks" are both 1. Ids lie in [0, vocab_size).
[[nodiscard]] Document document_of_ids(const Json& record, std::int64_t vocab_size, const ExampleOptions& options,
                                       RecordCensus& census);

}  // namespace sft::data
