// SPDX-License-Identifier: Apache-2.0
#pragma once
// The printable characters that stand for bytes in byte-level vocabularies (Radford et al., 2019, GPT-2): printable
// Latin-1 stands for itself, the other 68 bytes for U+0100 and on, so that a blank is U+0120.

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace sft::text {

/// For every byte its character in UTF-8.
[[nodiscard]] const std::array<std::string, 256>& byte_characters();

/// The byte that a character stands for.
[[nodiscard]] std::optional<unsigned char> byte_of_character(char32_t code_point);

/// Bytes as characters.
[[nodiscard]] std::string to_byte_characters(std::string_view bytes);

}  // namespace sft::text
