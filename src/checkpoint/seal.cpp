#include "seal.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>

#include "checksum.hpp"
#include "sft/core/error.hpp"

namespace sft::checkpoint {

namespace {

using Block = std::array<char, seal_bytes>;

/// The whole user block of a file with that checksum.
Block block_of(const std::string& checksum) {
  Block block{};
  const std::string line = "sft-checkpoint " + checksum + "\n";
  line.copy(block.data(), block.size());
  return block;
}

}  // namespace

void seal(const std::string& path) {
  const Block block = block_of(checksum_of_file(path, seal_bytes));
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.write(block.data(), block.size()).flush();
  if (!file) throw_data_error("cannot write " + path, std::strerror(errno), "free space on the disk");
}

void check_seal(const std::string& path) {
  constexpr std::array<char, 8> signature = {'\x89', 'H', 'D', 'F', '\r', '\n', '\x1a', '\n'};
  Block found{};
  std::ifstream file(path, std::ios::binary);
  if (!file) throw_data_error("cannot read " + path, std::strerror(errno), "check the path and its permissions");
  file.read(found.data(), found.size());
  if (std::equal(signature.begin(), signature.end(), found.begin())) return;
  const std::string checksum = checksum_of_file(path, seal_bytes);
  if (found == block_of(checksum)) return;
  throw_data_error(
      path + " is damaged",
      "its checksum is " + checksum + ", which is not the one in its first " + std::to_string(seal_bytes) + " bytes",
      "restore the file, or use another checkpoint");
}

}  // namespace sft::checkpoint
