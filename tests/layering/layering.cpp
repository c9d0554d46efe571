#include "layering/layering.hpp"

#include <algorithm>
#include <fstream>
#include <iterator>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace sft::test {

namespace fs = std::filesystem;

namespace {

std::vector<std::string> read_lines(const fs::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// One walk over a tree.
class Inspection {
 public:
  Inspection(const fs::path& root, const RoomTable& table) : root_(root), table_(table) {}

  /// Inspects every file of `folder`, whose subfolders are rooms.
  void inspect_rooms(const fs::path& folder, bool is_public) {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder)) {
      if (!entry.is_directory()) continue;
      room_ = entry.path().filename();
      if (!table_.contains(room_)) {
        violations_.push_back({fs::relative(entry.path(), root_), "`" + room_ + "` is no room of the table"});
        continue;
      }
      for (const fs::directory_entry& file : fs::recursive_directory_iterator(entry.path())) {
        if (file.is_regular_file()) inspect_file(file.path(), is_public);
      }
    }
  }

  [[nodiscard]] std::vector<Violation> violations() const { return violations_; }

 private:
  void inspect_file(const fs::path& file, bool is_public) {
    static const std::set<std::string> source_suffixes{".hpp", ".cpp", ".h", ".cu", ".cuh", ".inc"};
    file_ = fs::relative(file, root_);
    line_ = 0;
    if (file.filename() == "CMakeLists.txt") {
      inspect_rooms_of_cmake(read_lines(file));
    } else if (source_suffixes.contains(file.extension())) {
      for (const std::string& line : read_lines(file)) {
        ++line_;
        inspect_include(line, is_public);
        inspect_condition(line);
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
      check_allowed(rest.substr(0, rest.find('/')));
    } else if (path.find('/') != std::string::npos && table_.contains(first) && first != room_) {
      refuse("a private header of room `" + first + "`");
    }
  }

  void inspect_condition(const std::string& line) {
    static const std::regex condition(R"(^\s*#\s*(if|ifdef|ifndef|elif|elifdef)\b.*(CUDA|NCCL|SFT_HAVE).*)");
    if (!std::regex_match(line, condition)) return;
    if (file_.stem() != "factory") refuse("#if on a backend outside a factory file");
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
          check_allowed(text);
        }
      }
    }
  }

  void check_allowed(const std::string& other) {
    if (other == room_ || table_.at(room_).contains(other)) return;
    refuse("room `" + room_ + "` may not include room `" + other + "`");
  }

  void refuse(const std::string& reason) {
    violations_.push_back({file_.generic_string() + ":" + std::to_string(line_), reason});
  }

  const fs::path root_;
  const RoomTable& table_;
  std::vector<Violation> violations_;
  std::string room_;  // of the file at hand
  fs::path file_;     // relative to the root
  int line_ = 0;
};

}  // namespace

RoomTable read_room_table(const fs::path& file) {
  RoomTable table;
  for (const std::string& line : read_lines(file)) {
    const std::size_t colon = line.find(':');
    if (line.starts_with('#') || colon == std::string::npos) continue;
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

std::vector<Violation> find_violations(const fs::path& root, const RoomTable& table) {
  Inspection inspection(root, table);
  inspection.inspect_rooms(root / "include" / "sft", /*is_public=*/true);
  inspection.inspect_rooms(root / "src", /*is_public=*/false);
  return inspection.violations();
}

}  // namespace sft::test
