// SPDX-License-Identifier: Apache-2.0
#include "layering/rooms.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <optional>
#include <sstream>
#include <stdexcept>

namespace sft::test {

namespace fs = std::filesystem;

namespace {

std::string trimmed(const std::string& text) {
  const std::size_t begin = text.find_first_not_of(' ');
  return begin == std::string::npos ? "" : text.substr(begin, text.find_last_not_of(' ') - begin + 1);
}

std::vector<std::string> split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);) parts.push_back(trimmed(part));
  return parts;
}

/// The cells of a row of a Markdown table; none: the line is no such row.
std::vector<std::string> cells_of(const std::string& line) {
  if (!line.starts_with("| ")) return {};
  return split(line.substr(1), '|');
}

/// One table of rooms in a document.
class DocumentTable {
 public:
  DocumentTable(const std::vector<std::string>& header, const RoomTable& table, const FloorTable& floors)
      : room_(column_of(header, "room")),
        floor_(column_of(header, "floor")),
        grants_(column_of(header, "may include")),
        table_(table),
        floors_(floors) {
    for (std::size_t i = 0; i < header.size(); ++i) {
      if (header[i].starts_with("may include")) grants_ = i;
    }
  }

  [[nodiscard]] bool is_of_rooms() const { return room_.has_value(); }

  /// What is wrong with a row; empty: nothing.
  std::string enter(const std::vector<std::string>& row) {
    if (*room_ >= row.size()) return "a row without a room";
    const std::string& room = row[*room_];
    if (!table_.contains(room)) return "`" + room + "` is no room of rooms.txt";
    if (!seen_.insert(room).second) return "`" + room + "` is listed twice";
    if (floor_ && (*floor_ >= row.size() || row[*floor_] != floors_.at(room)))
      return "`" + room + "` is on floor `" + floors_.at(room) + "`";
    if (!grants_ || *grants_ >= row.size()) return "";
    return compare_grants(room, row[*grants_]);
  }

  /// The rooms that the table leaves out; empty: none.
  [[nodiscard]] std::string missing() const {
    std::string names;
    for (const auto& [room, grants] : table_) {
      if (!seen_.contains(room)) names += (names.empty() ? "" : ", ") + room;
    }
    return names;
  }

 private:
  static std::optional<std::size_t> column_of(const std::vector<std::string>& header, const std::string& name) {
    const auto found = std::find(header.begin(), header.end(), name);
    if (found == header.end()) return std::nullopt;
    return static_cast<std::size_t>(found - header.begin());
  }

  [[nodiscard]] std::string compare_grants(const std::string& room, const std::string& text) const {
    std::set<std::string> grants;
    if (text != "the standard library") {
      for (const std::string& other : split(text, ',')) grants.insert(other);
    }
    if (grants != table_.at(room)) return "`" + room + "` may include other rooms than in rooms.txt";
    return "";
  }

  std::optional<std::size_t> room_, floor_, grants_;
  const RoomTable& table_;
  const FloorTable& floors_;
  std::set<std::string> seen_;
};

}  // namespace

FloorTable read_floor_table(const fs::path& file) {
  FloorTable floors;
  std::string floor;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    static const std::string heading = "floor ";
    if (line.starts_with(heading)) floor = trimmed(line.substr(heading.size()));
    const std::size_t colon = line.substr(0, line.find('#')).find(':');
    if (colon != std::string::npos) floors[line.substr(0, colon)] = floor;
  }
  return floors;
}

RoomTable read_room_table(const fs::path& file) {
  RoomTable table;
  std::ifstream stream(file);
  for (std::string line; std::getline(stream, line);) {
    line = line.substr(0, line.find('#'));
    const std::size_t colon = line.find(':');
    if (colon == std::string::npos) continue;
    const std::string room = line.substr(0, colon);
    std::istringstream words(line.substr(colon + 1));
    const std::set<std::string> allowed{std::istream_iterator<std::string>(words), {}};
    for (const std::string& other : allowed) {
      if (!table.contains(other)) throw std::runtime_error("`" + other + "` does not stand above `" + room + "`");
    }
    table[room] = allowed;
  }
  return table;
}

std::vector<Violation> find_document_errors(const fs::path& document, const RoomTable& table,
                                            const FloorTable& floors) {
  std::vector<Violation> violations;
  std::optional<DocumentTable> open;  // the table at hand, of rooms or not
  int line_number = 0, num_tables = 0;
  const auto refuse = [&](const std::string& reason) {
    violations.push_back({document.filename().string() + ":" + std::to_string(line_number), reason});
  };
  const auto close = [&] {
    if (open && open->is_of_rooms()) {
      ++num_tables;
      if (!open->missing().empty()) refuse("the table above leaves out " + open->missing());
    }
    open.reset();
  };
  std::ifstream stream(document);
  for (std::string line; std::getline(stream, line);) {
    ++line_number;
    const std::vector<std::string> cells = cells_of(line);
    if (cells.empty()) {
      if (!line.starts_with("|")) close();
    } else if (!open) {
      open.emplace(cells, table, floors);
    } else if (open->is_of_rooms()) {
      const std::string problem = open->enter(cells);
      if (!problem.empty()) refuse(problem);
    }
  }
  close();
  if (num_tables == 0) violations.push_back({document.filename().string(), "no table of rooms"});
  return violations;
}

}  // namespace sft::test
