// SPDX-License-Identifier: Apache-2.0
#include "find_script.hpp"

namespace sft::apps {

namespace fs = std::filesystem;

fs::path program_folder() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error).parent_path();
}

std::string find_script(const std::string& name) {
  std::error_code error;
  for (fs::path folder = program_folder(); folder.has_relative_path(); folder = folder.parent_path()) {
    for (const fs::path& found : {folder / name, folder / "share/sft" / name}) {
      if (fs::exists(found, error)) return found.string();
    }
  }
  return "";
}

}  // namespace sft::apps
