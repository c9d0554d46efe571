// SPDX-License-Identifier: Apache-2.0
#pragma once
// Names of tokens to text: the "decoder" of tokenizer.json.

#include <memory>
#include <string>
#include <vector>

#include "text/json_fields.hpp"

namespace sft::text {

class Decoder {
 public:
  virtual ~Decoder() = default;

  /// Turns names into parts of the text, well-formed UTF-8, perhaps of another number.
  virtual void decode(std::vector<std::string>& parts) const = 0;
};

/// Null for null: the names are then joined with blanks. Throws std::invalid_argument with the reason if it is damaged
/// or not supported.
[[nodiscard]] std::unique_ptr<const Decoder> make_decoder(const Json& description);

}  // namespace sft::text
