// SPDX-License-Identifier: Apache-2.0
#include "hdf5_driver.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <vector>

#include "descriptor.hpp"

namespace sft::io {

namespace {

constexpr std::uint64_t header_bytes = 16;  // of a collection, and of each object in it
constexpr std::uint64_t max_collection_bytes = std::uint64_t{1} << 28;

std::uint64_t number_at(const char* bytes, std::size_t size) {
  std::uint64_t number = 0;
  std::memcpy(&number, bytes, size);
  return number;
}

constexpr std::string_view magic = {"GCOL\1\0\0\0", 8};

}  // namespace

bool begins_global_heap(const char* bytes, std::size_t size) {
  return std::string_view(bytes, size).starts_with(magic);
}

std::string damage_of_global_heap(int descriptor, std::uint64_t address) {
  const std::string where = fmt::format("the global heap at byte {} is damaged", address);
  std::array<char, header_bytes> header{};
  if (read_at(descriptor, address, header.size(), header.data()) != static_cast<ssize_t>(header.size())) return where;
  const std::uint64_t size = number_at(header.data() + 8, 8);
  if (!begins_global_heap(header.data(), header.size()) || size < header_bytes || size > max_collection_bytes)
    return where;
  std::vector<char> bytes(size);
  if (read_at(descriptor, address, size, bytes.data()) != static_cast<ssize_t>(size)) return where;
  for (std::uint64_t begin = header_bytes; begin + header_bytes <= size;) {
    const std::uint64_t index = number_at(bytes.data() + begin, 2);
    const std::uint64_t stored = number_at(bytes.data() + begin + 8, 8);
    if (stored > size) return where;
    // Object 0 is the free space, and its size includes the header.
    const std::uint64_t taken = index == 0 ? stored : header_bytes + (stored + 7) / 8 * 8;
    if (taken < header_bytes || begin + taken > size) return where;
    begin += taken;
  }
  return "";
}

}  // namespace sft::io
