// SPDX-License-Identifier: Apache-2.0
#include "sft/io/hash.hpp"

#include <xxhash.h>

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

}  // namespace sft::io
