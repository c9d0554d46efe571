// SPDX-License-Identifier: Apache-2.0
#pragma once
// generation_config.json of a model folder.

#include <cstdint>
#include <string>
#include <vector>

namespace sft::hub {

/// The tokens that end a text: `eos_token_id`, one id or several, of FOLDER/generation_config.json, else of
/// FOLDER/config.json; none where neither names one. A data Error names the file that cannot be used.
[[nodiscard]] std::vector<std::int32_t> read_eos_token_ids(const std::string& folder);

}  // namespace sft::hub
