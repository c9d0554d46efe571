// SPDX-License-Identifier: Apache-2.0
#pragma once
// The records of an input, one at a time: lines of JSON, or the elements of one JSON array.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "prepare/byte_stream.hpp"

namespace sft::prepare {

/// The text of one record and where it begins.
struct RawRecord {
  std::string text;
  std::int64_t line = 0;  ///< from 1, where what is read begins
};

class RecordReader {
 public:
  RecordReader(const std::string& input, std::function<void(std::int64_t num_bytes)> advance);
  /// Those records of a file that is_divisible() whose lines begin in `range`; lines are counted from its begin.
  RecordReader(const std::string& file, ByteRange range, std::function<void(std::int64_t num_bytes)> advance);

  /// Whether the records of a file are lines in bytes that are not compressed, so that reading may begin anywhere.
  /// False for a file that cannot be read, and where its first bytes do not tell.
  [[nodiscard]] static bool is_divisible(const std::string& file);

  /// The next record that is not blank; false past the last one. An input whose first character is `[` is an array, of
  /// which every element is a record; any other has a record in each line. Throws std::invalid_argument, after which
  /// `record.line` says where, for an array that is none and a record above 256 MiB; reading cannot go on then.
  bool next(RawRecord& record);

  /// Ends of lines in the range so far; when next() gave false, all.
  [[nodiscard]] std::int64_t num_lines() const { return num_lines_; }

 private:
  bool next_line(RawRecord& record);
  bool next_element(RawRecord& record);
  /// The next byte; -1 at the end.
  int peek();
  void take() {
    if (buffer_[begin_] == '\n') count_line();
    ++begin_;
  }
  /// Takes the next byte if it is `c`.
  bool take_if(char c) {
    if (peek() != c) return false;
    take();
    return true;
  }
  void count_line();
  /// The place in the input of the byte that peek() shows.
  [[nodiscard]] std::int64_t position() const { return buffer_begin_ + static_cast<std::int64_t>(begin_); }
  /// Goes behind the first end of a line, or to the end of the range.
  void skip_line();
  /// The next byte that is no white space, not taken; -1 at the end.
  int peek_beyond_space();
  void skip_byte_order_mark();
  void begin();
  [[noreturn]] void refuse(RawRecord& record, const std::string& why) const;

  enum class Form { unknown, lines, array };

  ByteRange range_;
  std::unique_ptr<ByteStream> stream_;
  std::vector<char> buffer_;
  std::int64_t buffer_begin_ = 0;  ///< its place in the input
  std::size_t begin_ = 0, end_ = 0;
  std::int64_t line_ = 1, num_lines_ = 0;
  Form form_ = Form::unknown;
  bool is_first_element_ = true;
  bool has_ended_ = false;
};

}  // namespace sft::prepare
