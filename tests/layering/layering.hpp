#pragma once
// Holds the sources of a tree against the table of rooms.

#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace sft::test {

/// room -> the rooms that it may include besides itself.
using RoomTable = std::map<std::string, std::set<std::string>>;

/// Reads rooms.txt. Throws std::runtime_error when a room names one that does not stand above it, so that no two rooms
/// can ever include each other.
[[nodiscard]] RoomTable read_room_table(const std::filesystem::path& file);

struct Violation {
  std::string place;  ///< "src/ops/cpu/linear.cpp:7", relative to the root of the tree
  std::string reason;
};

/// Every line of include/sft/<room>, src/<room> and their CMakeLists.txt under `root` that breaks a rule:
///   1. an include of a room that the table does not allow, or of another room's private header;
///   2. MPI, HDF5, CUDA, NCCL or oneDNN in a public header;
///   3. #if on a backend outside a factory file;
///   4. ROOMS in a CMakeLists.txt that the table does not allow.
/// A folder that is no room is a violation too.
[[nodiscard]] std::vector<Violation> find_violations(const std::filesystem::path& root, const RoomTable& table);

}  // namespace sft::test
