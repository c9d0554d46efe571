// SPDX-License-Identifier: Apache-2.0
#pragma once
// Sends what a finished run leaves to the hub, by the user's own `hf`, or `huggingface-cli` where that is older.

#include <string>
#include <vector>

#include "sft/config/config.hpp"
#include "sft/launch/request.hpp"

namespace sft::apps {

/// What is sent, and where to.
class HubUpload {
 public:
  /// `config`: of the run. Throws a configuration Error where neither program is on PATH, or HF_HUB_OFFLINE forbids to
  /// send, unless `is_shown_only`.
  HubUpload(const launch::Request& request, const config::Config& config, bool is_shown_only);

  /// Sends the run's `settings`, a file: as with TRL the repository is made, and a log-in that is not valid is met,
  /// before anything is trained. Throws an Error with the last line of the program.
  void begin(const std::string& settings);
  /// Sends the model or adapter, its card and, where hub_strategy asks for them, checkpoints. Throws an Error that has
  /// the command which sends the rest.
  void finish();
  /// The commands of finish(), as they are without a checkpoint that is still to come.
  [[nodiscard]] std::vector<std::vector<std::string>> commands() const;

 private:
  [[nodiscard]] std::vector<std::string> words(const std::string& from, const std::string& to,
                                               const std::string& message) const;
  [[nodiscard]] std::vector<std::vector<std::string>> checkpoints() const;
  void write_card() const;

  launch::HubUpload hub_;
  std::string output_dir_, folder_, program_, base_model_, dataset_;
  std::string repository_;  ///< OWNER/NAME once begin() has learned the owner
  bool is_adapter_;
};

}  // namespace sft::apps
