// SPDX-License-Identifier: Apache-2.0
#include "sft/io/hash.hpp"

#define XXH_INLINE_ALL  // a call for each element would cost more than its hash
#include <xxhash.h>

#include <array>
#include <bit>
#include <cstdio>
#include <new>

namespace sft::io {

static_assert(std::endian::native == std::endian::little, "hashes of numbers are those of little-endian bytes");

struct ContentHash::State {
  XXH3_state_t* hash = XXH3_createState();
  State() {
    if (hash == nullptr) throw std::bad_alloc();
    XXH3_128bits_reset(hash);
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;
  ~State() { XXH3_freeState(hash); }
};

ContentHash::ContentHash() : state_(std::make_unique<State>()) {}
ContentHash::~ContentHash() = default;
ContentHash::ContentHash(ContentHash&&) noexcept = default;

void ContentHash::add(const void* bytes, std::size_t num_bytes) {
  if (num_bytes > 0) XXH3_128bits_update(state_->hash, bytes, num_bytes);
}

void ContentHash::add(const std::string& text) {
  add(static_cast<std::int64_t>(text.size()));
  add(text.data(), text.size());
}

std::string ContentHash::text() const {
  const XXH128_hash_t value = XXH3_128bits_digest(state_->hash);
  char text[40];
  std::snprintf(text, sizeof text, "xxh128:%016llx%016llx", static_cast<unsigned long long>(value.high64),
                static_cast<unsigned long long>(value.low64));
  return text;
}

std::uint64_t short_hash(std::span<const std::byte> bytes, std::uint64_t seed) {
  return XXH3_64bits_withSeed(bytes.data(), bytes.size(), seed);
}

void ElementSum::add(const std::string& tensor, std::int64_t first, std::span<const float> values) {
  const std::uint64_t seed = XXH3_64bits(tensor.data(), tensor.size());
  std::uint64_t sum = 0;
  std::array<std::uint64_t, 2> element{static_cast<std::uint64_t>(first), 0};
  for (const float value : values) {
    element[1] = std::bit_cast<std::uint32_t>(value);
    sum += XXH3_64bits_withSeed(element.data(), sizeof element, seed);
    ++element[0];
  }
  value_ += sum;
}

void ElementSum::add(const std::string& tensor, std::int64_t width, const Rectangle& where,
                     std::span<const float> values) {
  const bool is_one_run = where.num_columns == width;
  const std::int64_t num_runs = is_one_run ? 1 : where.num_rows;
  const std::size_t run = is_one_run ? where.num_elements() : where.num_columns;
  for (std::int64_t i = 0; i < num_runs; ++i) {
    add(tensor, (where.row_begin + i) * width + where.column_begin, values.subspan(i * run, run));
  }
}

std::string ElementSum::text() const {
  char text[32];
  std::snprintf(text, sizeof text, "xxh3sum:%016llx", static_cast<unsigned long long>(value_));
  return text;
}

}  // namespace sft::io
