// SPDX-License-Identifier: Apache-2.0
#include "generate_options.hpp"

#include <algorithm>

#include "sft/core/error.hpp"
#include "tool.hpp"

namespace sft::apps {

namespace {

namespace po = boost::program_options;

config::Manual about() {
  config::Manual manual;
  manual.program = "sft-generate";
  manual.summary = "Continues prompts with a trained model, on one rank, the likeliest token at a time";
  manual.usage = {"sft-generate FOLDER --prompt TEXT [--prompt TEXT ...]"};
  manual.paragraphs = {
      "FOLDER is a checkpoint, or the output folder of a run: then the checkpoint saved last is used.",
      "A prompt is tokenized as sft-prepare tokenizes the prompt of prompt/completion records. Text ends at <|eos|> or "
      "<|im_end|>."};
  manual.operand = "/";
  return manual;
}

po::options_description describe(GenerateOptions& options) {
  po::options_description description;
  auto add = description.add_options();
  add("prompt", po::value(&options.prompts)->composing()->value_name("TEXT"),
      "text to continue; give it several times for several texts");
  add("max_new_tokens", po::value(&options.max_new_tokens)->default_value(options.max_new_tokens)->value_name("N"),
      "at most this many");
  add("chat", po::bool_switch(&options.chat), "the prompt is a user's message, the model answers (ChatML)");
  return description;
}

}  // namespace

std::optional<GenerateOptions> read_generate_options(const std::vector<std::string>& arguments) {
  GenerateOptions options;
  const std::optional<po::variables_map> values = read_options(about(), describe(options), arguments);
  if (!values) return std::nullopt;
  if (values->count("operand") == 0) {
    throw_config_error("no checkpoint", "sft-generate needs a folder such as output/demo", "see sft-generate --help");
  }
  options.checkpoint = (*values)["operand"].as<std::string>();
  const bool has_empty = std::ranges::any_of(options.prompts, [](const std::string& text) { return text.empty(); });
  if (options.prompts.empty() || has_empty) {
    throw_config_error("no prompt", "there is nothing to continue", "give --prompt TEXT");
  }
  constexpr std::int64_t limit = 1 << 20;
  if (options.max_new_tokens < 1 || options.max_new_tokens > limit) {
    throw_config_error("max_new_tokens is " + std::to_string(options.max_new_tokens),
                       "it must be from 1 to " + std::to_string(limit), "leave it out for 128");
  }
  return options;
}

config::Manual generate_manual() {
  GenerateOptions options;
  return manual_of(about(), describe(options));
}

}  // namespace sft::apps
