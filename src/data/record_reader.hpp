// SPDX-License-Identifier: Apache-2.0
#pragma once
// The records of an input, one at a time: lines of JSON, or the elements of one JSON array.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "data/byte_stream.hpp"

namespace sft::data {

/// The text of one record and where it begins.
struct RawRecord {
  std::string text;
  std::int64_t line = 0;  ///< from 1
};

class RecordReader {
 public:
  RecordReader(const std::string& input, std::function<void(std::int64_t num_bytes)> advance);

  /// The next record that is not blank; false past the last one. An input whose first character is `[` is an array, of
  /// which every element is a record; any other has a record in each line. Throws std::invalid_argument, after which
  /// `record.line` says where, for an array that is none and a record above 256 MiB; reading cannot go on then.
  bool next(RawRecord& record);

 private:
  bool next_line(RawRecord& record);
  bool next_element(RawRecord& record);
  /// The next byte; -1 at the end.
  int peek();
  void take() {
    line_ += buffer_[begin_] == '\n' ? 1 : 0;
    ++begin_;
  }
  /// The next byte that is no white space, not taken; -1 at the end.
  int peek_beyond_space();
  void begin();
  [[noreturn]] void refuse(RawRecord& record, const std::string& why) const;

  enum class Form { unknown, lines, array };

  std::unique_ptr<ByteStream> stream_;
  std::vector<char> buffer_;
  std::size_t begin_ = 0, end_ = 0;
  std::int64_t line_ = 1;
  Form form_ = Form::unknown;
  bool is_first_element_ = true;
  bool has_ended_ = false;
};

}  // namespace sft::data
