// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small JSON files of a model folder.

#include <nlohmann/json.hpp>
#include <string>

namespace sft::hub {

/// The object that `text` is; a data Error that names `source` when it is none or nested too deeply.
[[nodiscard]] nlohmann::json parse_json_object(const std::string& text, const std::string& source);
/// The same of a file of at most 64 MiB.
[[nodiscard]] nlohmann::json read_json_object(const std::string& path);

}  // namespace sft::hub
