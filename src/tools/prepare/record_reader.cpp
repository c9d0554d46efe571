// SPDX-License-Identifier: Apache-2.0
#include "prepare/record_reader.hpp"

#include <algorithm>
#include <array>
#include <fstream>
#include <stdexcept>
#include <string_view>
#include <utility>

namespace sft::prepare {

namespace {

constexpr std::size_t max_record_bytes = std::size_t{256} << 20;
constexpr const char* too_large = "it is longer than 256 MiB";
constexpr std::string_view byte_order_mark = "\xef\xbb\xbf";

bool is_space(int c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }

}  // namespace

RecordReader::RecordReader(const std::string& input, std::function<void(std::int64_t num_bytes)> advance)
    : stream_(open_bytes(input, std::move(advance))), buffer_(buffer_bytes) {}

// The byte before tells whether a line begins with the range.
RecordReader::RecordReader(const std::string& file, ByteRange range,
                           std::function<void(std::int64_t num_bytes)> advance)
    : range_(range),
      stream_(open_range(file, {std::max<std::int64_t>(0, range.begin - 1), range.end}, std::move(advance))),
      buffer_(buffer_bytes),
      buffer_begin_(std::max<std::int64_t>(0, range.begin - 1)) {
  form_ = Form::lines;
  if (range.begin == 0) {
    skip_byte_order_mark();
  } else {
    skip_line();
  }
}

bool RecordReader::is_divisible(const std::string& file) {
  std::array<char, 4096> bytes{};
  std::ifstream stream(file, std::ios::binary);
  stream.read(bytes.data(), bytes.size());
  std::string_view text(bytes.data(), static_cast<std::size_t>(stream.gcount()));
  if (begins_compressed(text)) return false;
  if (text.starts_with(byte_order_mark)) text.remove_prefix(byte_order_mark.size());
  const auto first = std::ranges::find_if_not(text, [](char c) { return is_space(c); });
  return first != text.end() && *first != '[';
}

void RecordReader::refuse(RawRecord& record, const std::string& why) const {
  record.line = line_;
  throw std::invalid_argument(why);
}

int RecordReader::peek() {
  if (begin_ == end_) {
    if (has_ended_) return -1;
    buffer_begin_ += static_cast<std::int64_t>(end_);
    begin_ = 0;
    end_ = stream_->read(buffer_);
    has_ended_ = end_ == 0;
    if (has_ended_) return -1;
  }
  return static_cast<unsigned char>(buffer_[begin_]);
}

void RecordReader::count_line() {
  const std::int64_t place = position();
  if (place < range_.begin) return;
  ++line_;
  if (place < range_.end) ++num_lines_;
}

void RecordReader::skip_line() {
  while (position() < range_.end && peek() >= 0) {
    const bool ends_line = peek() == '\n';
    take();
    if (ends_line) return;
  }
}

int RecordReader::peek_beyond_space() {
  while (is_space(peek())) take();
  return peek();
}

void RecordReader::skip_byte_order_mark() {
  for (const char c : byte_order_mark) {
    if (peek() != static_cast<unsigned char>(c)) break;
    take();
  }
}

void RecordReader::begin() {
  skip_byte_order_mark();
  const bool is_array = peek_beyond_space() == '[';
  form_ = is_array ? Form::array : Form::lines;
  if (is_array) take();
}

bool RecordReader::next(RawRecord& record) {
  if (form_ == Form::unknown) begin();
  record.text.clear();
  return form_ == Form::array ? next_element(record) : next_line(record);
}

bool RecordReader::next_line(RawRecord& record) {
  do {
    if (position() >= range_.end) return false;  // the line that begins here is of the next range
    while (peek() != '\n' && is_space(peek())) take();
  } while (take_if('\n'));
  if (peek() < 0) return false;
  record.line = line_;
  while (peek() >= 0) {
    const auto from = buffer_.begin() + static_cast<std::ptrdiff_t>(begin_);
    const auto to = std::find(from, buffer_.begin() + static_cast<std::ptrdiff_t>(end_), '\n');
    if (record.text.size() + (to - from) > max_record_bytes) refuse(record, too_large);
    record.text.append(from, to);
    begin_ += to - from;
    if (begin_ == end_) continue;
    take();
    break;
  }
  return true;
}

bool RecordReader::next_element(RawRecord& record) {
  int c = peek_beyond_space();
  if (c == ']') {
    take();
    if (peek_beyond_space() >= 0) refuse(record, "something stands behind the array");
    is_first_element_ = false;
    form_ = Form::lines;  // of which there are none
    return false;
  }
  if (!is_first_element_) {
    if (c != ',') refuse(record, c < 0 ? "the array does not end" : "a comma is missing between two records");
    take();
    c = peek_beyond_space();
  }
  is_first_element_ = false;
  record.line = line_;
  int depth = 0;
  bool is_string = false;
  for (c = peek(); c >= 0; c = peek()) {
    if (is_string) {
      if (c == '\\') {
        record.text.push_back(static_cast<char>(c));
        take();
        c = peek();
        if (c < 0) break;
      } else if (c == '"') {
        is_string = false;
      }
    } else if (c == '"') {
      is_string = true;
    } else if (c == '{' || c == '[') {
      ++depth;
    } else if (depth == 0 && (c == ',' || c == ']')) {
      break;
    } else if (c == '}' || c == ']') {
      --depth;
    }
    if (record.text.size() >= max_record_bytes) refuse(record, too_large);
    record.text.push_back(static_cast<char>(c));
    take();
  }
  if (c < 0) {
    throw std::invalid_argument("the array does not end");
  }
  if (record.text.empty()) throw std::invalid_argument("a record is missing between two commas");
  return true;
}

}  // namespace sft::prepare
