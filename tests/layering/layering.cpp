// SPDX-License-Identifier: Apache-2.0
#include "layering/layering.hpp"

#include <algorithm>
#include <iterator>
#include <optional>
#include <regex>

#include "layering/source_text.hpp"

namespace sft::test {

namespace fs = std::filesystem;

namespace {

/// How the kernels of every room are launched; the host's emulation of a GPU puts another file in its place.
const std::string kernel_launches = "ops/cuda/launch.cuh";

/// The room of programs, and its folder of what several of them are made of.
const std::string programs_room = "apps", common_programs = "common";

/// One walk over a tree.
class Inspection {
 public:
  Inspection(const fs::path& root, const fs::path& rooms_file)
      : root_(root),
        rooms_file_(rooms_file),
        table_(read_room_table(rooms_file)),
        floors_(read_floor_table(rooms_file)),
        room_name_(pattern_of(table_)) {
    const fs::path headers = root / "include" / "sft";
    if (fs::exists(headers)) collect_shared_names(headers);
    for (const fs::path& folder : folders_in(headers)) inspect_room(folder, /*is_public=*/true);
    inspect_floors(root / "src");
    check_cmake_uses();
    check_grants();
  }

  [[nodiscard]] std::vector<Violation> violations() const { return violations_; }

 private:
  /// ROOMS of a CMakeLists.txt.
  struct Link {
    std::string room, other, place;
  };

  /// A room's namespace before `::`, or after `using namespace`.
  static std::regex pattern_of(const RoomTable& table) {
    std::string names;
    for (const auto& [room, grants] : table) names += (names.empty() ? "" : "|") + room;
    return std::regex(R"((?:^|[^\w:]|\bsft::)()" + names + R"()::|\busing namespace (?:sft::)?()" + names + R"()\b)");
  }

  /// Rooms whose public headers declare in `sft` itself, not in a namespace of their own: their types belong to them by
  /// name.
  void collect_shared_names(const fs::path& headers) {
    static const std::regex type(R"(^(?:class|struct|enum class|using) (\w+)\b(?!;).*)");
    for (const fs::directory_entry& entry : fs::recursive_directory_iterator(headers)) {
      if (!entry.is_regular_file()) continue;
      const std::string room = *fs::relative(entry.path(), headers).begin();
      const std::vector<std::string> code = code_of(read_lines(entry.path()));
      if (std::find(code.begin(), code.end(), "namespace sft {") == code.end()) continue;
      std::smatch match;
      for (const std::string& line : code) {
        if (std::regex_match(line, match, type)) room_of_name_[match[1]] = room;
      }
    }
  }

  static std::vector<fs::path> folders_in(const fs::path& folder) {
    std::vector<fs::path> folders;
    if (!fs::exists(folder)) return folders;
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (entry.is_directory()) folders.push_back(entry.path());
    }
    return folders;
  }

  /// Inspects the floors in `sources`, each of which holds its rooms or is one itself.
  void inspect_floors(const fs::path& sources) {
    for (const fs::path& folder : folders_in(sources)) {
      const std::string floor = folder.filename();
      const auto is_of_floor = [&](const auto& room_and_floor) { return room_and_floor.second == floor; };
      if (std::none_of(floors_.begin(), floors_.end(), is_of_floor)) {
        violations_.push_back({fs::relative(folder, root_), "`" + floor + "` is no floor of the table"});
      } else if (floors_.contains(floor)) {
        inspect_room(folder, /*is_public=*/false);
      } else {
        for (const fs::path& room : folders_in(folder)) inspect_room_of_floor(room, floor);
      }
    }
  }

  void inspect_room_of_floor(const fs::path& folder, const std::string& floor) {
    const auto found = floors_.find(folder.filename());
    if (found != floors_.end() && found->second != floor) {
      violations_.push_back({fs::relative(folder, root_), "the table has it on floor `" + found->second + "`"});
    }
    inspect_room(folder, /*is_public=*/false);
  }

  /// Inspects every file of the room in `folder`.
  void inspect_room(const fs::path& folder, bool is_public) {
    room_ = folder.filename();
    if (!table_.contains(room_)) {
      violations_.push_back({fs::relative(folder, root_), "`" + room_ + "` is no room of the table"});
      return;
    }
    for (const fs::directory_entry& file : fs::recursive_directory_iterator(folder)) {
      if (file.is_regular_file()) inspect_file(file.path(), is_public);
    }
  }

  void inspect_file(const fs::path& file, bool is_public) {
    static const std::set<std::string> source_suffixes{".hpp", ".cpp", ".h", ".cu", ".cuh", ".inc"};
    file_ = fs::relative(file, root_);
    line_ = 0;
    const std::vector<std::string> lines = read_lines(file);
    if (file.filename() == "CMakeLists.txt") {
      inspect_rooms_of_cmake(lines);
    } else if (source_suffixes.contains(file.extension())) {
      const std::vector<std::string> code = code_of(lines);
      for (std::size_t i = 0; i < lines.size(); ++i) {
        ++line_;
        inspect_include(lines[i], is_public);
        inspect_condition(code[i]);
        inspect_names(code[i]);
      }
    }
  }

  void inspect_include(const std::string& line, bool is_public) {
    static const std::regex include(R"(^\s*#\s*include\s*([<"])([^>"]+)[>"].*)");
    static const std::regex foreign(R"((mpi|hdf5|nccl|H5\w*)\.h|cuda.*|cublas.*|(oneapi/)?dnnl.*|oneapi/.*)");
    std::smatch match;
    if (!std::regex_match(line, match, include)) return;
    const std::string path = match[2];
    if (is_public && std::regex_match(path, foreign)) refuse("<" + path + "> in a public header");
    if (path.find("..") != std::string::npos) refuse("a path that climbs: " + path);
    const std::string first = path.substr(0, path.find('/'));
    if (first == "sft") {
      const std::string rest = path.substr(path.find('/') + 1);
      enter_use(rest.substr(0, rest.find('/')), "include");
    } else if (path == kernel_launches && file_.extension() == ".cu") {
      return;
    } else if (path.find('/') != std::string::npos && table_.contains(first) && first != room_) {
      refuse("a private header of room `" + first + "`");
    } else if (first == programs_room && room_ == programs_room) {
      inspect_program_include(path);
    }
  }

  /// Programs are folders: each includes itself and `common`, and `common` itself alone. A file of no folder may
  /// include all of them.
  void inspect_program_include(const fs::path& path) {
    const auto folder_of = [](const fs::path& file, int depth) {
      const bool has_folder = std::distance(file.begin(), file.end()) > depth + 1;
      return has_folder ? std::next(file.begin(), depth)->string() : std::string();
    };
    const std::string mine = folder_of(file_, 2), other = folder_of(path, 1);
    if (mine.empty() || other == mine || other == common_programs) return;
    refuse("`" + mine + "` includes program `" + other + "`");
  }

  void inspect_condition(const std::string& code) {
    static const std::regex condition(R"(^\s*#\s*(if|ifdef|ifndef|elif|elifdef)\b.*(CUDA|NCCL|SFT_HAVE).*)");
    if (!std::regex_match(code, condition)) return;
    if (file_.stem() != "factory") refuse("#if on a backend outside a factory file");
  }

  void inspect_names(const std::string& code) {
    for (std::sregex_iterator it(code.begin(), code.end(), room_name_), end; it != end; ++it) {
      enter_use((*it)[1].matched ? (*it)[1] : (*it)[2], "name anything of");
    }
    static const std::regex word(R"([A-Za-z_]\w*)");
    for (std::sregex_iterator it(code.begin(), code.end(), word), end; it != end; ++it) {
      const auto found = room_of_name_.find(it->str());
      if (found != room_of_name_.end()) enter_use(found->second, "name `" + it->str() + "` of");
    }
  }

  /// Words after ROOMS up to the next keyword or the closing parenthesis are rooms.
  void inspect_rooms_of_cmake(const std::vector<std::string>& lines) {
    static const std::regex word(R"([\w/.:${}-]+|[()]|#.*)");
    bool in_rooms = false;
    for (const std::string& line : lines) {
      ++line_;
      for (std::sregex_iterator it(line.begin(), line.end(), word), end; it != end; ++it) {
        const std::string text = it->str();
        if (text.front() == '#') continue;
        const bool is_keyword = std::all_of(text.begin(), text.end(), [](unsigned char c) { return !std::islower(c); });
        if (is_keyword) {
          in_rooms = text == "ROOMS";
        } else if (in_rooms && text.front() != '$') {
          if (!is_granted(text)) refuse("room `" + room_ + "` may not link room `" + text + "`");
          links_.push_back({room_, text, place()});
        }
      }
    }
  }

  [[nodiscard]] bool is_granted(const std::string& other) const {
    return other == room_ || table_.at(room_).contains(other);
  }

  void enter_use(const std::string& other, const std::string& verb) {
    if (!is_granted(other)) refuse("room `" + room_ + "` may not " + verb + " room `" + other + "`");
    used_[room_].insert(other);
  }

  void check_cmake_uses() {
    for (const Link& link : links_) {
      if (used_[link.room].contains(link.other) || !table_.at(link.room).contains(link.other)) continue;
      violations_.push_back(
          {link.place, "links room `" + link.other + "`, which no source of `" + link.room + "` uses"});
    }
  }

  void check_grants() {
    file_ = fs::relative(rooms_file_, root_);
    line_ = 0;
    for (const std::string& line : read_lines(rooms_file_)) {
      ++line_;
      const std::string room = line.substr(0, line.find(':'));
      if (!table_.contains(room)) continue;
      for (const std::string& other : table_.at(room)) {
        if (!used_[room].contains(other)) refuse("grants `" + other + "` to `" + room + "`, which does not use it");
      }
    }
  }

  [[nodiscard]] std::string place() const { return file_.generic_string() + ":" + std::to_string(line_); }
  void refuse(const std::string& reason) {
    const bool is_known =
        !violations_.empty() && violations_.back().place == place() && violations_.back().reason == reason;
    if (!is_known) violations_.push_back({place(), reason});
  }

  const fs::path root_, rooms_file_;
  const RoomTable table_;
  const FloorTable floors_;
  const std::regex room_name_;
  std::map<std::string, std::string> room_of_name_;
  std::map<std::string, std::set<std::string>> used_;  // by room
  std::vector<Link> links_;
  std::vector<Violation> violations_;
  std::string room_;  // of the file at hand
  fs::path file_;     // relative to the root
  int line_ = 0;
};

}  // namespace

std::vector<Violation> find_violations(const fs::path& root, const fs::path& rooms_file) {
  return Inspection(root, rooms_file).violations();
}

}  // namespace sft::test
