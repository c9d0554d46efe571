// SPDX-License-Identifier: Apache-2.0
#include "sft/io/glob.hpp"

#include <glob.h>

#include <algorithm>
#include <filesystem>

#include "sft/io/files.hpp"

namespace sft::io {

namespace fs = std::filesystem;

namespace {

std::string escaped(const std::string& path) {
  std::string text;
  for (const char c : path) {
    if (c == '*' || c == '?' || c == '[' || c == '\\') text += '\\';
    text += c;
  }
  return text;
}

std::vector<std::string> shell_glob(const std::string& pattern) {
  glob_t matches{};
  std::vector<std::string> paths;
  if (::glob(pattern.c_str(), GLOB_TILDE, nullptr, &matches) == 0) {
    paths.assign(matches.gl_pathv, matches.gl_pathv + matches.gl_pathc);
  }
  ::globfree(&matches);
  return paths;
}

/// Where `**` stands as a whole part; npos: nowhere.
std::size_t find_any_folders(const std::string& pattern) {
  for (std::size_t at = pattern.find("**"); at != std::string::npos; at = pattern.find("**", at + 1)) {
    const bool is_begin = at == 0 || pattern[at - 1] == '/';
    if (is_begin && (at + 2 == pattern.size() || pattern[at + 2] == '/')) return at;
  }
  return std::string::npos;
}

std::string joined(const std::string& folder, const std::string& name) {
  if (folder.empty() || folder.back() == '/') return folder + name;
  return folder + "/" + name;
}

/// Calls visit(folder) with the folder, empty for the working folder, and with all that are below it and not hidden.
template <class Visit>
void for_each_folder(const std::string& folder, const Visit& visit) {
  visit(folder);
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder.empty() ? "." : folder, ignored)) {
    const std::string name = entry.path().filename().string();
    const bool is_folder = entry.is_directory(ignored) && !entry.is_symlink(ignored);  // links may lead in circles
    if (is_folder && !is_hidden(name)) for_each_folder(joined(folder, name), visit);
  }
}

std::vector<std::string> expand(const std::string& pattern) {
  const std::size_t at = find_any_folders(pattern);
  if (at == std::string::npos) return shell_glob(pattern);
  const std::string head = pattern.substr(0, at);
  const std::string rest = pattern.substr(std::min(at + 3, pattern.size()));
  std::vector<std::string> paths;
  for (const std::string& folder : head.empty() ? std::vector<std::string>{""} : shell_glob(head)) {
    for_each_folder(folder, [&](const std::string& below) {
      const std::string here = escaped(joined(below, ""));
      for (const std::string& path : rest.empty() ? shell_glob(here + "*") : expand(here + rest)) {
        if (!rest.empty() || fs::is_regular_file(path)) paths.push_back(path);
      }
    });
  }
  return paths;
}

/// How many parts of the path a pattern has to write: those that begin with `__`, `.` and `..`.
std::ptrdiff_t num_literal_parts(const std::string& path) {
  const fs::path parts(path);
  return std::ranges::count_if(parts, [](const fs::path& part) {
    const std::string& name = part.native();
    return name.starts_with("__") || name == "." || name == "..";
  });
}

}  // namespace

bool is_hidden(const std::string& name) { return name.starts_with('.') || name.starts_with("__"); }

std::vector<std::string> expand_glob_in(const std::string& folder, const std::string& pattern) {
  const bool is_below = !folder.empty() && !fs::path(pattern).is_absolute();
  const std::string whole = is_below ? joined(folder, pattern) : pattern;
  if (fs::exists(whole)) return {whole};  // throws for a name that no file can have
  std::vector<std::string> paths = expand(is_below ? escaped(joined(folder, "")) + pattern : pattern);
  const std::ptrdiff_t num_asked = num_literal_parts(whole);
  std::erase_if(paths, [&](const std::string& path) { return num_literal_parts(path) != num_asked; });
  std::ranges::sort(paths);
  paths.erase(std::unique(paths.begin(), paths.end()), paths.end());
  return paths;
}

std::vector<std::string> expand_glob(const std::string& pattern) {
  std::error_code ignored;
  for (std::size_t end = pattern.rfind('/'); end != std::string::npos && end > 0; end = pattern.rfind('/', end - 1)) {
    const std::string folder =
        pattern.substr(0, end);  // the longest that is there stands for itself, brackets included
    if (fs::is_directory(folder, ignored)) return expand_glob_in(folder, pattern.substr(end + 1));
  }
  return expand_glob_in("", pattern);
}

}  // namespace sft::io
