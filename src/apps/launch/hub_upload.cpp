// SPDX-License-Identifier: Apache-2.0
#include "hub_upload.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <sstream>

#include "apps/common/child_process.hpp"
#include "fetch.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/core/shell_word.hpp"
#include "sft/io/files.hpp"
#include "sft/launch/model_card.hpp"

namespace sft::apps {

namespace {

namespace fs = std::filesystem;

constexpr const char* card_file = "/README.md";
constexpr const char* install =
    "install it (`pip install huggingface_hub`) or put it on PATH, or leave --push_to_hub out";

/// `hf`, else `huggingface-cli`; empty: neither is on PATH.
std::string find_program() {
  const char* const path = std::getenv("PATH");
  for (const char* name : {"hf", "huggingface-cli"}) {
    std::istringstream folders(path != nullptr ? path : "");
    for (std::string folder; std::getline(folders, folder, ':');) {
      std::error_code ignored;
      if (fs::is_regular_file(fs::path(folder) / name, ignored)) return name;
    }
  }
  return "";
}

/// What went wrong, by the last line with something in it that is no hint, without colours.
std::string last_line_of(const std::string& text) {
  static const std::regex colour("\x1b\\[[0-9;]*m");
  std::istringstream lines(std::regex_replace(text, colour, ""));
  std::string last;
  for (std::string line; std::getline(lines, line);) {
    if (line.find_first_not_of(" \t\r") != std::string::npos && !line.starts_with("Hint:")) last = line;
  }
  return last;
}

/// OWNER/NAME in the address that the program printed, of a repository that was asked for by its name; else `name`.
std::string with_owner(const std::string& name, const std::string& printed) {
  if (name.find('/') != std::string::npos) return name;
  for (const char* behind : {"/blob/", "/tree/", "/commit/"}) {
    const std::size_t end = printed.find(fmt::format("/{}{}", name, behind));
    if (end == std::string::npos) continue;
    const std::size_t slash = printed.rfind('/', end - 1);
    if (slash != std::string::npos) return fmt::format("{}/{}", printed.substr(slash + 1, end - slash - 1), name);
  }
  return name;
}

bool has_chat_template(const std::string& folder) {
  std::error_code ignored;
  if (fs::exists(folder + "/chat_template.jinja", ignored)) return true;
  const std::string file = folder + "/tokenizer_config.json";
  return fs::exists(file, ignored) && io::read_file(file).find("\"chat_template\"") != std::string::npos;
}

std::string line_of(const std::vector<std::string>& words) {
  std::vector<std::string> quoted;
  for (const std::string& word : words) quoted.push_back(shell_word(word));
  return fmt::format("{}", fmt::join(quoted, " "));
}

}  // namespace

HubUpload::HubUpload(const launch::Request& request, const config::Config& config, bool is_shown_only)
    : hub_(request.hub),
      output_dir_(config.train.output_dir),
      folder_(output_dir_ + (config.lora.use_peft ? "/adapter" : "/model")),
      program_(find_program()),
      base_model_(is_hub_name(request.model) ? request.model : ""),
      dataset_(!request.train.empty() && is_hub_name(request.train.front().name) ? request.train.front().name : ""),
      repository_(hub_.model_id),
      is_adapter_(config.lora.use_peft) {
  if (repository_.empty()) repository_ = fs::path(fs::absolute(output_dir_).string() + "/").parent_path().filename();
  const config::HubModel saves = config.checkpoint.save_hub_model;
  const bool is_random = saves == config::HubModel::automatic && request.model.empty();
  if (!is_adapter_ && (saves == config::HubModel::never || is_random)) {
    throw_config_error("--push_to_hub has nothing to send", "the run would leave no model folder",
                       "give --save_hub_model true, or leave --push_to_hub out");
  }
  if (is_shown_only) {
    if (program_.empty()) program_ = "hf";
    return;
  }
  if (program_.empty()) {
    throw_config_error("there is no `hf` to send the model with (--push_to_hub)",
                       "neither it nor `huggingface-cli` is on PATH", install);
  }
  if (is_hub_offline()) {
    throw_config_error("--push_to_hub needs the network", "HF_HUB_OFFLINE is set",
                       "unset it, or leave --push_to_hub out and send the model later");
  }
}

std::vector<std::string> HubUpload::words(const std::string& from, const std::string& to,
                                          const std::string& message) const {
  std::vector<std::string> words{program_, "upload", repository_, from, to, "--commit-message", message};
  if (!hub_.revision.empty()) words.insert(words.end(), {"--revision", hub_.revision});
  if (hub_.has_private_repo.value_or(false)) words.emplace_back("--private");
  return words;
}

void HubUpload::begin(const std::string& settings) {
  if (!hub_.token.empty()) ::setenv("HF_TOKEN", hub_.token.c_str(), /*replace=*/1);  // not for other users' eyes
  const std::string log = output_dir_ + "/hub.log";
  io::write_file_atomically(log, "");
  const std::vector<std::string> command = words(settings, fs::path(settings).filename(), "Settings of the run");
  log_info(line_of(command));
  const int status = run_and_wait(command, log, install);
  const std::string printed = io::read_file(log);
  if (status != 0) {
    throw_config_error(
        fmt::format("cannot write to {} of the hub (--push_to_hub)", repository_),
        fmt::format("`{}` ended with status {}: {}", program_, status, last_line_of(printed)),
        fmt::format("log in with `{}`, or give --hub_model_id OWNER/NAME or --hub_token; {} has all that "
                    "it printed",
                    program_ == "hf" ? "hf auth login" : "huggingface-cli login", log));
  }
  repository_ = with_owner(repository_, printed);
}

void HubUpload::write_card() const {
  const launch::ModelCard card{.name = repository_.substr(repository_.find('/') + 1),
                               .repository = repository_,
                               .base_model = base_model_,
                               .dataset = dataset_,
                               .is_adapter = is_adapter_,
                               .is_chat = has_chat_template(folder_)};
  io::write_file_atomically(output_dir_ + card_file, launch::to_markdown(card));
}

std::vector<std::vector<std::string>> HubUpload::checkpoints() const {
  std::vector<std::vector<std::string>> commands;
  const bool sends_all = hub_.strategy == "all_checkpoints";
  if (!sends_all && hub_.strategy != "checkpoint") return commands;
  std::vector<std::string> names;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::directory_iterator(output_dir_, ignored)) {
    const std::string name = entry.path().filename();
    if (name.starts_with("checkpoint-") && name.find('.') == std::string::npos) names.push_back(name);
  }
  std::ranges::sort(names);
  if (!sends_all && names.size() > 1) names.erase(names.begin(), names.end() - 1);
  for (const std::string& name : names) {
    commands.push_back(words(fmt::format("{}/{}", output_dir_, name), sends_all ? name : "last-checkpoint", name));
  }
  return commands;
}

std::vector<std::vector<std::string>> HubUpload::commands() const {
  std::vector<std::vector<std::string>> commands{words(folder_, ".", "End of training"),
                                                 words(output_dir_ + card_file, "README.md", "Model card")};
  for (const std::vector<std::string>& command : checkpoints()) commands.push_back(command);
  return commands;
}

void HubUpload::finish() {
  write_card();
  const std::vector<std::vector<std::string>> all = commands();
  for (std::size_t i = 0; i < all.size(); ++i) {
    log_info(line_of(all[i]));
    const int status = run_and_wait(all[i], "", install);
    if (status == 0) continue;
    std::vector<std::string> rest;
    for (std::size_t j = i; j < all.size(); ++j) rest.push_back(line_of(all[j]));
    throw Error(ExitStatus::failure, fmt::format("{} was not sent to {} of the hub", all[i][3], repository_),
                fmt::format("`{}` ended with status {}; its own lines are above", program_, status),
                fmt::format("the run itself is done; this sends the rest: {}", fmt::join(rest, " && ")));
  }
}

}  // namespace sft::apps
