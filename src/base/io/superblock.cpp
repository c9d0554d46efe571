// SPDX-License-Identifier: Apache-2.0
#include "sft/io/superblock.hpp"

#include <sys/stat.h>

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string_view>

#include "descriptor.hpp"

namespace sft::io {

namespace {

constexpr std::string_view signature = "\x89HDF\r\n\x1a\n";
constexpr std::size_t version_at = 8, offset_bytes_at = 9, length_bytes_at = 10, marks_at = 11, end_at = 28;
constexpr std::size_t end_in_version_0_at = 40, end_in_version_1_at = 44;  // with 8 bytes for offsets, too
constexpr std::size_t checksum_at = 44;
constexpr std::size_t smallest_user_block = 512;

template <class T>
T number_at(const char* bytes) {
  T number{};
  std::memcpy(&number, bytes, sizeof number);
  return number;
}

/// The checksum of HDF5's metadata: hashlittle of lookup3 (Bob Jenkins, 2006, public domain), of a few words.
std::uint32_t lookup3(const char* bytes, std::size_t size) {
  constexpr std::size_t words_at_once = 3, bytes_at_once = words_at_once * sizeof(std::uint32_t);
  std::array<std::uint32_t, words_at_once> state;
  state.fill(0xdeadbeef + static_cast<std::uint32_t>(size));
  auto& [a, b, c] = state;
  const auto add = [&](std::size_t at, std::size_t count) {
    std::array<char, bytes_at_once> padded{};
    std::copy_n(bytes + at, count, padded.begin());
    for (std::size_t i = 0; i < words_at_once; ++i) {
      state[i] += number_at<std::uint32_t>(padded.data() + i * sizeof(std::uint32_t));
    }
  };
  std::size_t at = 0;
  for (; size - at > bytes_at_once; at += bytes_at_once) {
    add(at, bytes_at_once);
    a = (a - c) ^ std::rotl(c, 4), c += b;
    b = (b - a) ^ std::rotl(a, 6), a += c;
    c = (c - b) ^ std::rotl(b, 8), b += a;
    a = (a - c) ^ std::rotl(c, 16), c += b;
    b = (b - a) ^ std::rotl(a, 19), a += c;
    c = (c - b) ^ std::rotl(b, 4), b += a;
  }
  add(at, size - at);
  c = (c ^ b) - std::rotl(b, 14);
  a = (a ^ c) - std::rotl(c, 11);
  b = (b ^ a) - std::rotl(a, 25);
  c = (c ^ b) - std::rotl(b, 16);
  a = (a ^ c) - std::rotl(c, 4);
  b = (b ^ a) - std::rotl(a, 14);
  c = (c ^ b) - std::rotl(b, 24);
  return c;
}

/// Whether a superblock of version 3 with 8 bytes for offsets and lengths, as all systems of today write it, is there.
bool is_version_3(const char* bytes, std::size_t size) {
  return size >= superblock_bytes && std::string_view(bytes, signature.size()) == signature && bytes[version_at] == 3 &&
         bytes[offset_bytes_at] == 8 && bytes[length_bytes_at] == 8 &&
         number_at<std::uint32_t>(bytes + checksum_at) == lookup3(bytes, checksum_at);
}

}  // namespace

bool clear_writer_marks(char* bytes, std::size_t size) {
  if (!is_version_3(bytes, size) || bytes[marks_at] == 0) return false;
  bytes[marks_at] = 0;
  const std::uint32_t checksum = lookup3(bytes, checksum_at);
  std::memcpy(bytes + checksum_at, &checksum, sizeof checksum);
  return true;
}

bool has_writer_marks(int descriptor) {
  std::array<char, superblock_bytes> bytes{};
  const std::optional<std::uint64_t> begin = find_superblock(descriptor);
  return begin && read_at(descriptor, *begin, bytes.size(), bytes.data()) > 0 &&
         clear_writer_marks(bytes.data(), bytes.size());
}

std::string describe_writer_marks(const std::string& path, const std::string& proof) {
  return fmt::format(
      "{} is open for writing in another program, or was when that was killed ({}): {}; `h5clear -s` takes away what a "
      "killed program left",
      path, proof, read_only_advice);
}

std::optional<std::uint64_t> find_superblock(int descriptor) {
  std::array<char, signature.size()> bytes{};
  for (std::uint64_t address = 0;; address = address == 0 ? smallest_user_block : 2 * address) {
    if (read_at(descriptor, address, bytes.size(), bytes.data()) < static_cast<ssize_t>(bytes.size())) return {};
    if (std::string_view(bytes.data(), bytes.size()) == signature) return address;
  }
}

bool ends_as_hdf5(int descriptor) {
  std::array<char, end_in_version_1_at + sizeof(std::uint64_t)> bytes{};
  struct stat facts {};
  const std::optional<std::uint64_t> begin = find_superblock(descriptor);
  if (!begin || ::fstat(descriptor, &facts) != 0) return false;
  if (read_at(descriptor, *begin, bytes.size(), bytes.data()) < static_cast<ssize_t>(bytes.size())) return false;
  const char version = bytes[version_at];
  const std::size_t place = version == 0 ? end_in_version_0_at : version == 1 ? end_in_version_1_at : end_at;
  return static_cast<std::uint64_t>(facts.st_size) == number_at<std::uint64_t>(bytes.data() + place);
}

std::string describe_change(const std::string& path, int descriptor) {
  if (!ends_as_hdf5(descriptor)) return path + " is damaged";
  return path + " was changed after it was written, as h5repack or a program that opens it for writing does";
}

std::string describe_change(const std::string& path) {
  const Descriptor file(path, O_RDONLY | O_NONBLOCK);
  return describe_change(path, file.value());
}

bool has_bytes_behind(int descriptor, std::uint64_t address) {
  std::array<char, superblock_bytes> bytes{};
  struct stat facts {};
  if (read_at(descriptor, address, bytes.size(), bytes.data()) < static_cast<ssize_t>(bytes.size())) return false;
  if (!is_version_3(bytes.data(), bytes.size()) || ::fstat(descriptor, &facts) != 0) return false;
  return static_cast<std::uint64_t>(facts.st_size) > number_at<std::uint64_t>(bytes.data() + end_at);
}

}  // namespace sft::io
