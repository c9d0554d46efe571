// SPDX-License-Identifier: Apache-2.0
#include "layering/source_text.hpp"

#include <cctype>
#include <fstream>

namespace sft::test {

std::vector<std::string> read_lines(const std::filesystem::path& file) {
  std::ifstream stream(file);
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> code_of(const std::vector<std::string>& lines) {
  std::vector<std::string> code;
  std::string end;  // what ends the block comment or raw string under way; empty: neither
  for (const std::string& line : lines) {
    std::string kept;
    std::size_t i = 0;
    while (i < line.size()) {
      const auto rest_starts_with = [&](const char* text) {
        return line.compare(i, std::string(text).size(), text) == 0;
      };
      const bool in_word = i > 0 && (std::isalnum(static_cast<unsigned char>(line[i - 1])) != 0 || line[i - 1] == '_');
      if (!end.empty()) {
        const std::size_t found = line.find(end, i);
        if (found == std::string::npos) break;
        i = found + end.size();
        end.clear();
      } else if (rest_starts_with("//")) {
        break;
      } else if (rest_starts_with("/*")) {
        end = "*/";
        i += 2;
      } else if (!in_word && rest_starts_with("R\"")) {
        const std::size_t open = line.find('(', i);
        if (open == std::string::npos) break;
        end = ")" + line.substr(i + 2, open - i - 2) + "\"";
        i = open + 1;
      } else if (line[i] == '"' || (line[i] == '\'' && !in_word)) {  // a quote in a word separates digits
        const char quote = line[i];
        for (++i; i < line.size() && line[i] != quote; ++i) {
          if (line[i] == '\\') ++i;
        }
        ++i;
        kept += ' ';
      } else {
        kept += line[i++];
      }
    }
    code.push_back(kept);
  }
  return code;
}

}  // namespace sft::test
