// SPDX-License-Identifier: Apache-2.0
#pragma once
// Unicode normalization forms (Unicode Standard Annex 15).

#include <cstdint>

#include "text/aligned_text.hpp"

namespace sft::text {

enum class Form : std::uint8_t { nfc, nfd, nfkc, nfkd };

/// `text` itself where it has the form, otherwise a new text in `store`. Characters younger than Unicode 9 stay as they
/// are: so the library whose ids we give has it.
[[nodiscard]] TextView to_unicode_form(Form form, const TextView& text, TextStore& store, bool with_origins);

}  // namespace sft::text
