// SPDX-License-Identifier: Apache-2.0
#include "row_message.hpp"

#include <array>
#include <cstdint>

namespace sft::train {

void RowMessage::broadcast(const comm::Group& ranks) {
  const Error* const error = std::get_if<Error>(&content_);
  std::array<std::int64_t, 2> head{error != nullptr ? 1 : 0,
                                   error != nullptr ? static_cast<std::int64_t>(error->status()) : 0};
  std::string text = error != nullptr ? error->what() : std::move(std::get<std::string>(content_));
  ranks.broadcast(head, text, 0);
  const auto [is_error, status] = head;
  if (is_error != 0) {
    content_ = Error(static_cast<ExitStatus>(status), text);
  } else {
    content_ = std::move(text);
  }
}

const std::string& RowMessage::rows() const {
  if (const Error* const error = std::get_if<Error>(&content_)) throw *error;
  return std::get<std::string>(content_);
}

}  // namespace sft::train
