// SPDX-License-Identifier: Apache-2.0
#pragma once
// What is done to a text before it is cut into words: the "normalizer" of tokenizer.json.

#include <memory>

#include "text/aligned_text.hpp"
#include "text/json_fields.hpp"

namespace sft::text {

class Normalizer {
 public:
  virtual ~Normalizer() = default;

  /// The normalized text: `text` itself where nothing changes, otherwise a new one in `store`.
  [[nodiscard]] virtual TextView normalize(const TextView& text, TextStore& store, bool with_origins) const = 0;
};

/// Null for null. Throws std::invalid_argument with the reason if it is damaged or not supported.
[[nodiscard]] std::unique_ptr<const Normalizer> make_normalizer(const Json& description);

}  // namespace sft::text
