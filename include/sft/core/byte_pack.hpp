// SPDX-License-Identifier: Apache-2.0
#pragma once
// Numbers, texts and arrays one after the other in one string, to be sent to another process of this program on a
// machine of the same kind.

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "sft/core/ensure.hpp"

namespace sft {

class BytePacker {
 public:
  template <class T>
  void add(const T& value) {
    static_assert(std::is_trivially_copyable_v<T>);
    bytes_.append(reinterpret_cast<const char*>(&value), sizeof value);
  }
  template <class T>
  void add_all(const T* values, std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    add(static_cast<std::int64_t>(count));
    bytes_.append(reinterpret_cast<const char*>(values), count * sizeof(T));
  }
  void add_text(std::string_view text) { add_all(text.data(), text.size()); }

  [[nodiscard]] std::string take() { return std::move(bytes_); }

 private:
  std::string bytes_;
};

/// Gives back what was packed, in the same order and of the same types. The bytes must outlive it.
class ByteUnpacker {
 public:
  explicit ByteUnpacker(std::string_view bytes) : rest_(bytes) {}

  template <class T>
  [[nodiscard]] T get() {
    static_assert(std::is_trivially_copyable_v<T>);
    T value;
    std::memcpy(&value, next(sizeof value).data(), sizeof value);
    return value;
  }
  template <class T>
  [[nodiscard]] std::vector<T> get_all() {
    const std::size_t count = get<std::int64_t>();
    std::vector<T> values(count);
    const std::string_view bytes = next(count * sizeof(T));
    if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  [[nodiscard]] std::string get_text() { return std::string(next(static_cast<std::size_t>(get<std::int64_t>()))); }
  [[nodiscard]] bool is_at_end() const { return rest_.empty(); }

 private:
  std::string_view next(std::size_t size) {
    SFT_ENSURE(size <= rest_.size(), "what is unpacked was packed");
    const std::string_view bytes = rest_.substr(0, size);
    rest_.remove_prefix(size);
    return bytes;
  }

  std::string_view rest_;
};

}  // namespace sft
