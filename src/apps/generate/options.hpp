// SPDX-License-Identifier: Apache-2.0
#pragma once
// The command line of sft-generate.

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sft/cli/manual.hpp"
#include "sft/core/dtype.hpp"
#include "sft/generate/sampler.hpp"

namespace sft::apps {

struct GenerateOptions {
  std::string model;  ///< as given: a model folder or name, a checkpoint, or the output folder of a run
  std::string adapter, tokenizer, chat_template_path;  ///< empty: none; the model's own
  std::vector<std::string> prompts;
  std::string system;  ///< message that conversations begin with; empty: none
  std::int64_t max_new_tokens = 0;
  std::int64_t max_length = 4096;  ///< of a conversation, in tokens
  generate::Sampling sampling;
  DType dtype = DType::float32;
  bool chat = false, json = false, logits = false;
};

/// Nothing when help or the version was asked for and printed. Throws a configuration Error.
[[nodiscard]] std::optional<GenerateOptions> read_generate_options(const std::vector<std::string>& arguments);

[[nodiscard]] cli::Manual generate_manual();

}  // namespace sft::apps
