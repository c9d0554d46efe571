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

/// room -> its floor, the folder of src that holds it. Room `apps` is a floor by itself.
using FloorTable = std::map<std::string, std::string>;

/// Reads the floors of rooms.txt.
[[nodiscard]] FloorTable read_floor_table(const std::filesystem::path& file);

/// Reads the grants of rooms.txt. Throws std::runtime_error when a room names one that does not stand above it, so that
/// no two rooms can ever include each other.
[[nodiscard]] RoomTable read_room_table(const std::filesystem::path& file);

struct Violation {
  std::string place;  ///< "src/hardware/ops/cpu/linear.cpp:7", relative to the root of the tree
  std::string reason;
};

/// Where a document's tables of rooms differ from `table` and `floors`. A table of rooms has a column `room`: it must
/// list every room once. A column `floor` must name the floor of each, and a column `may include` its grants, where
/// `the standard library` means none. A document without a table of rooms is a violation as well.
[[nodiscard]] std::vector<Violation> find_document_errors(const std::filesystem::path& document, const RoomTable& table,
                                                          const FloorTable& floors);

}  // namespace sft::test
