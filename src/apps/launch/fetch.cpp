// SPDX-License-Identifier: Apache-2.0
#include "fetch.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <filesystem>
#include <string_view>
#include <vector>

#include "apps/common/child_process.hpp"
#include "apps/common/find_script.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/hub/folder.hpp"

namespace sft::apps {

namespace {

namespace fs = std::filesystem;

void fetch(const char* kind, const std::string& name, const std::vector<std::string>& more) {
  const std::string script = find_script("postprocess/fetch.py");
  if (script.empty()) return;  // the error of who looks for it says what to do
  std::vector<std::string> words{"python3", script, kind, name};
  words.insert(words.end(), more.begin(), more.end());
  log_info(fmt::format("{} is not here: {}", name, fmt::join(words, " ")));
  const int status = run_and_wait(words, "", "install python3, or download it elsewhere");
  if (status == 0) return;
  throw_data_error(fmt::format("cannot fetch the {} {}", kind, name),
                   fmt::format("postprocess/fetch.py ended with status {}; its own line is above", status),
                   "mend that, or give a folder that is here");
}

/// Whether `find` finds what it looks for.
template <class Find>
bool is_here(const Find& find) {
  try {
    static_cast<void>(find());
    return true;
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

bool is_hub_name(const std::string& text) {
  std::error_code ignored;
  const bool is_word = std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || std::string_view("-_./").find(c) != std::string::npos;
  });
  return is_word && std::ranges::count(text, '/') == 1 && !text.starts_with('.') && !text.starts_with('/') &&
         !text.ends_with('/') && !fs::exists(text, ignored) && !fs::exists(fs::path(text).parent_path(), ignored);
}

bool is_hub_offline() {
  const char* const value = std::getenv("HF_HUB_OFFLINE");
  return value != nullptr && std::string_view("1 ON YES TRUE on yes true").find(value) != std::string_view::npos &&
         *value != '\0';
}

void fetch_model(const std::string& name, const std::string& revision) {
  if (!is_hub_name(name) || is_hub_offline()) return;
  if (is_here([&] { return hub::find_model_folder(name, revision); })) return;
  fetch("model", name, {"--revision", revision});
}

void fetch_dataset(const std::string& name) {
  if (!is_hub_name(name) || is_hub_offline()) return;
  if (is_here([&] { return hub::find_dataset_folder(name); })) return;
  fetch("dataset", name, {});
}

}  // namespace sft::apps
