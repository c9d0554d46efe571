// SPDX-License-Identifier: Apache-2.0
#pragma once
// Files of other programs, and what the launcher makes of them.

#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "sft/config/parse.hpp"
#include "sft/launch/foreign_file.hpp"
#include "sft/launch/request.hpp"
#include "support/temporary_folder.hpp"

namespace sft::test {

/// The file of this text, read.
inline launch::ForeignFile read_text(const std::string& text, const std::string& name = "file.yaml") {
  const TemporaryFolder folder;
  std::ofstream(folder.file(name)) << text;
  return launch::read_foreign_file(folder.file(name));
}

inline const std::vector<std::string>& options_of_prepare() {
  static const std::vector<std::string> names{"packing",
                                              "max_length",
                                              "seed",
                                              "tokenizer",
                                              "assistant_only_loss",
                                              "eval_split",
                                              "columns",
                                              "shuffle_dataset",
                                              "chat_template",
                                              "rename",
                                              "dataset_text_field",
                                              "input",
                                              "output",
                                              "json",
                                              "completion_only_loss",
                                              "end_of_turn",
                                              "prompt_template",
                                              "eos_token",
                                              "pad_token",
                                              "chat_template_path"};
  return names;
}

/// A file as the one source of a launch.
inline launch::Request request_of(const launch::ForeignFile& file) {
  launch::Request request;
  request.refused = file.refused;
  launch::take(request, file.settings, options_of_prepare());
  return request;
}

/// The configuration of training that such a file means. Throws for what is refused, all at once.
inline config::Config config_of(const launch::ForeignFile& file) {
  const launch::Request request = request_of(file);
  return config::parse_sources(request.training, request.refused);
}

/// The profile of this program.
inline launch::ForeignFile profile(const std::string& name) {
  return launch::read_foreign_file(launch::find_profile(name, std::string(SFT_SOURCE_DIR) + "/inputs/profiles"));
}

}  // namespace sft::test
