// SPDX-License-Identifier: Apache-2.0
#pragma once
// Model folders in GGUF, the format of llama.cpp, made by its own converter, a Python script that users install.

#include <string>

namespace sft::apps {

/// What to run: `given`, a path or a name on PATH, or else, where that is empty, the first of convert_hf_to_gguf.py and
/// convert-hf-to-gguf on PATH. A configuration Error where there is none.
[[nodiscard]] std::string find_gguf_converter(const std::string& given);

/// Makes the file `to` of the model folder `from` with `converter` and its --outtype `type`. `to` appears whole or not
/// at all. What the converter prints goes where this program's output goes. A data Error where `to` is there already,
/// the converter fails, or what it leaves is no GGUF file.
void convert_to_gguf(const std::string& converter, const std::string& from, const std::string& to,
                     const std::string& type);

}  // namespace sft::apps
