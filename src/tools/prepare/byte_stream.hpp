// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bytes of an input, unpacked where they are compressed.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace sft::prepare {

/// Names standard input where a file is asked for.
inline constexpr const char* standard_input = "-";

/// How much is read at a time.
inline constexpr std::size_t buffer_bytes = 1 << 18;

class ByteStream {
 public:
  virtual ~ByteStream() = default;
  /// Fills a part of `bytes`, at least one, and returns how many; 0 at the end. A data Error where the input cannot be
  /// read, is damaged or ends early.
  virtual std::size_t read(std::span<char> bytes) = 0;
};

/// "standard input", or the path.
[[nodiscard]] std::string display_name(const std::string& input);

/// Opens a file, a pipe or standard input; gzip (RFC 1952) and Zstandard (RFC 8878), several members or frames one
/// after the other included, are known by their first bytes. What is known to be of another kind is refused by name.
/// advance(bytes) reports what was read of the input itself.
[[nodiscard]] std::unique_ptr<ByteStream> open_bytes(const std::string& input,
                                                     std::function<void(std::int64_t num_bytes)> advance);

/// Places [begin, end) of bytes in a file.
struct ByteRange {
  std::int64_t begin = 0;
  std::int64_t end = std::numeric_limits<std::int64_t>::max();
};

/// Opens a file that is not compressed, from range.begin on. Up to range.end it is read as fast as any; behind that,
/// where the rest of one record is sought, in small pieces.
[[nodiscard]] std::unique_ptr<ByteStream> open_range(const std::string& file, ByteRange range,
                                                     std::function<void(std::int64_t num_bytes)> advance);

/// Whether bytes that begin so are compressed, by what open_bytes unpacks.
[[nodiscard]] bool begins_compressed(std::string_view bytes);

}  // namespace sft::prepare
