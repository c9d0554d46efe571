// SPDX-License-Identifier: Apache-2.0
#pragma once
// The message from the rank that reads rows to the ranks that share them.

#include <string>
#include <utility>
#include <variant>

#include "sft/comm/group.hpp"
#include "sft/core/error.hpp"

namespace sft::train {

/// The rows of one micro-batch, or the error that kept the reader from them.
class RowMessage {
 public:
  /// Rows of no bytes.
  RowMessage() = default;
  /// `rows`: what rows::RowLoader::next gives.
  explicit RowMessage(std::string rows) : content_(std::move(rows)) {}
  explicit RowMessage(Error error) : content_(std::move(error)) {}

  /// Every rank ends with the message of the first one. Two messages, whatever it holds. Collective over `ranks`.
  void broadcast(const comm::Group& ranks);

  /// Bytes for rows::cut_packed_rows. Throws the Error, if it holds one.
  [[nodiscard]] const std::string& rows() const;

 private:
  std::variant<std::string, Error> content_;
};

}  // namespace sft::train
