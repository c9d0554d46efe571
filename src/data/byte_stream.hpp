// SPDX-License-Identifier: Apache-2.0
#pragma once
// The bytes of an input, unpacked where they are compressed.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>

namespace sft::data {

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

}  // namespace sft::data
