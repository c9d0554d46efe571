// SPDX-License-Identifier: Apache-2.0
#pragma once
// A short text that stands for many bytes: two streams with the same text hold the same bytes. It tells data apart and
// finds damage by accident; it does not protect against changes on purpose.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <type_traits>

#include "sft/io/rectangle.hpp"

namespace sft::io {

/// XXH3-128 (Collet, 2019) of a stream of bytes. Numbers are hashed as they lie in memory, little-endian.
class ContentHash {
 public:
  ContentHash();
  ~ContentHash();
  ContentHash(ContentHash&&) noexcept;

  void add(const void* bytes, std::size_t num_bytes);
  template <class T>
  void add(std::span<const T> values) {
    static_assert(std::is_arithmetic_v<T>);
    add(values.data(), values.size_bytes());
  }
  void add(std::int64_t value) { add(&value, sizeof value); }
  /// The length of the text, then the text.
  void add(const std::string& text);

  /// "xxh128:" and 32 hexadecimal digits: the hash of all that was added so far.
  [[nodiscard]] std::string text() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

/// XXH3-64 of some bytes, for what a run compares within itself.
[[nodiscard]] std::uint64_t short_hash(std::span<const std::byte> bytes, std::uint64_t seed = 0);

/// Stands for the elements of named tensors, whoever looks at which of them in whatever order: the sum, modulo 2^64, of
/// a hash of each element's tensor, place and number. Ranks that each see a part add up what they have.
class ElementSum {
 public:
  /// Adds the neighbouring elements of `tensor`, row-major in its logical shape, from number `first` on.
  void add(const std::string& tensor, std::int64_t first, std::span<const float> values);
  /// Adds the elements of the rectangle `where` of `tensor`, whose rows have `width` elements, row by row.
  void add(const std::string& tensor, std::int64_t width, const Rectangle& where, std::span<const float> values);
  void add(std::uint64_t other) { value_ += other; }
  [[nodiscard]] std::uint64_t value() const { return value_; }

  /// "xxh3sum:" and 16 hexadecimal digits.
  [[nodiscard]] std::string text() const;

 private:
  std::uint64_t value_ = 0;
};

/// "crc32:89abcdef" of a file from byte `begin` on, by zlib. A data Error names a file that cannot be read.
[[nodiscard]] std::string checksum_of_file(const std::string& path, std::int64_t begin = 0);

}  // namespace sft::io
