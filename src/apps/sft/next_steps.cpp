// SPDX-License-Identifier: Apache-2.0
#include "next_steps.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <sstream>

#include "apps/common/find_script.hpp"
#include "apps/common/start_model.hpp"
#include "sft/config/values.hpp"
#include "sft/core/shell_word.hpp"
#include "sft/hub/folder.hpp"
#include "sft/text/chat_template_files.hpp"

namespace sft::apps {

namespace fs = std::filesystem;

namespace {

bool is_same_file(const fs::path& a, const fs::path& b) {
  std::error_code error;
  return fs::equivalent(a, b, error) && !error;
}

/// How a user types the program `name` that lies beside this one: ./NAME where the working folder has it, NAME where
/// PATH leads to it, else with its folder. Empty when there is none.
std::string command_of(const std::string& name) {
  const fs::path program = program_folder() / name;
  std::error_code error;
  if (!fs::exists(program, error)) return "";
  if (is_same_file(name, program)) return "./" + name;
  const char* const path = std::getenv("PATH");
  std::istringstream folders(path != nullptr ? path : "");
  for (std::string folder; std::getline(folders, folder, ':');) {
    if (is_same_file(fs::path(folder) / name, program)) return name;
  }
  return shell_word(program.string());
}

/// How a user types that script; empty when it is not there (any more).
std::string script(const std::string& name) {
  const std::string found = find_script(name);
  if (found.empty()) return "";
  return is_same_file(name, found) ? name : shell_word(found);
}

/// Whether the folder of a tokenizer, empty for none, has a chat template, so that a conversation is what the model can
/// be asked for.
bool has_chat_template(const std::string& folder) {
  if (folder.empty()) return false;
  try {
    return text::read_chat_templates(folder).standard.has_value();
  } catch (const Error&) {
    return false;
  }
}

}  // namespace

std::vector<std::string> next_steps(const config::Config& config, ExitStatus status, const std::string& checkpoint) {
  if (status != ExitStatus::done) return {"the same command with --checkpoint.resume_from_checkpoint auto goes on"};
  const std::string& output_dir = config.train.output_dir;
  const std::string model_folder = output_dir + "/model", merged_folder = output_dir + "/merged";
  const bool has_model_folder = config.leaves_model_folder();
  const std::string origin = find_origin(config.model);
  std::error_code error;
  const std::string left = config.lora.use_peft ? output_dir + "/adapter" : model_folder;
  const std::string tokenizer = fs::exists(left + "/tokenizer.json", error) ? left : origin;
  std::vector<std::string> lines;
  const auto add = [&](const std::string& command, const std::string& words) {
    if (!command.empty()) lines.push_back(fmt::format("{} {}", command, words));
  };
  add(command_of("sft-generate"), fmt::format("{} {}", shell_word(has_model_folder ? model_folder : checkpoint),
                                              has_chat_template(tokenizer) ? "--chat" : "--prompt 'TEXT'"));
  if (config.lora.use_peft) {
    const bool has_model = !origin.empty() && origin == config.model.model_name_or_path;
    if (has_model && !fs::exists(merged_folder, error)) {
      add(command_of("sft-convert"), fmt::format("--merge {} {} {}", shell_word(origin),
                                                 shell_word(output_dir + "/adapter"), shell_word(merged_folder)));
    }
  } else if (!has_model_folder && !fs::exists(model_folder, error)) {
    add(command_of("sft-convert"), fmt::format("{} {}", shell_word(checkpoint), shell_word(model_folder)));
  }
  add(script("postprocess/plot_loss.py"),
      fmt::format("{} -o {}", shell_word(output_dir), shell_word(output_dir + "/loss.png")));
  return lines;
}

std::vector<std::string> tracker_commands(const config::Train& config) {
  std::vector<std::string> commands;
  for (const config::Reporter reporter : config.report_to) {
    if (reporter == config::Reporter::tensorboard || reporter == config::Reporter::prometheus) continue;
    const std::string name = config::write(std::vector{reporter}), found = script("postprocess/track.py");
    commands.push_back(fmt::format("{} {} --to {} --follow", found.empty() ? "postprocess/track.py" : found,
                                   shell_word(config.output_dir), name));
  }
  return commands;
}

}  // namespace sft::apps
