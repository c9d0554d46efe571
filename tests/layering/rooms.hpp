// SPDX-License-Identifier: Apache-2.0
#pragma once
// The table of rooms: who may include whom, as rooms.txt has it and as the documents show it.

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

/// Where a document's tables of rooms differ from `table`. A table of rooms has a column `room`: it must list every
/// room once. With the columns `layer` and `may include` too, its grants must be those of `table`, each of a lower
/// layer; there `the standard library` means none, and `all below` every room of a lower layer. A document without a
/// table of rooms is a violation as well.
[[nodiscard]] std::vector<Violation> find_document_errors(const std::filesystem::path& document,
                                                          const RoomTable& table);

}  // namespace sft::test
