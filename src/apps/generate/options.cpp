// SPDX-License-Identifier: Apache-2.0
#include "options.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>

#include "sft/cli/option_value.hpp"
#include "sft/cli/options.hpp"
#include "sft/core/error.hpp"

namespace sft::apps {

namespace {

namespace po = boost::program_options;

cli::Manual about_generate() {
  cli::Manual manual;
  manual.program = "sft-generate";
  manual.summary = "Continues prompts with a model, or talks with it, on one rank";
  manual.usage = {"sft-generate MODEL --prompt TEXT [--prompt TEXT ...] [--chat]", "sft-generate MODEL --chat"};
  manual.paragraphs = {
      "MODEL is a model folder in hub format, the name of one in the local hub cache, a checkpoint, or the output "
      "folder "
      "of a run: then the checkpoint saved last is used. A checkpoint of a LoRA run is the model that it began with "
      "and "
      "its adapter.",
      "A prompt is tokenized as the tokenizer does it with any text. With --chat it is the message of a user, in the "
      "markup of the model's chat template, or ChatML where the tokenizer comes without one. --chat without a prompt "
      "reads messages from standard input, a line each, until /exit or its end (Ctrl-D); /clear begins a new "
      "conversation. On a terminal Ctrl-C interrupts an answer, which stays in the conversation as far as it came, or "
      "drops the line that is typed; on an empty line it ends the program.",
      "A text ends at the tokens that generation_config.json lists, the tokenizer's end of a text, the end of a turn "
      "in "
      "the chat template, or after max_new_tokens. temperature, top_k and top_p mean what they mean in transformers."};
  manual.operand = "/";
  manual.operand_option = "model_name_or_path";
  return manual;
}

po::options_description describe(GenerateOptions& options) {
  po::options_description description;
  auto add = description.add_options();
  add("prompt", po::value(&options.prompts)->composing()->value_name("TEXT"),
      "text to continue; give it several times for several texts");
  add("chat", cli::flag(&options.chat), "prompts are messages of a user, which the model answers");
  add("system", po::value(&options.system)->default_value(options.system)->value_name("TEXT"),
      "with --chat: the message that conversations begin with");
  add("max_new_tokens", cli::number<std::int64_t>()->value_name("N"),
      "at most this many for each text; unset: 128, or 1024 for each answer of a conversation");
  add("max_length", cli::number(&options.max_length)->default_value(options.max_length)->value_name("N"),
      "with --chat and no prompt: most tokens of a conversation, for which memory is taken");
  add("temperature",
      cli::number(&options.sampling.temperature)->default_value(options.sampling.temperature, "0")->value_name("X"),
      "0: always the likeliest token; else tokens are drawn, more evenly the higher it is");
  add("top_k", cli::number(&options.sampling.top_k)->default_value(options.sampling.top_k)->value_name("N"),
      "draw from the N likeliest tokens alone; 0: from all");
  add("top_p", cli::number(&options.sampling.top_p)->default_value(options.sampling.top_p, "1")->value_name("X"),
      "draw from the likeliest tokens alone that together have this probability");
  add("seed", cli::number<std::int64_t>()->default_value(0),
      "the same seed draws the same tokens: for each prompt, and for a conversation, whose answers draw from one "
      "sequence");
  add("adapter", cli::path("FOLDER", &options.adapter)->default_value(options.adapter),
      "LoRA adapter for the model: a PEFT folder, or a checkpoint or output folder of a LoRA run");
  add("tokenizer", cli::path("FOLDER", &options.tokenizer)->default_value(options.tokenizer),
      "byte, or a folder with a tokenizer.json, in place of the model's own");
  add("chat_template_path", cli::path("FILE", &options.chat_template_path)->default_value(options.chat_template_path),
      "with --chat: a Jinja template in place of the model's own");
  add("dtype", po::value<std::string>()->default_value("float32")->value_name("TYPE"),
      "that the model computes in: float32 or bfloat16");
  add("json", cli::flag(&options.json), "print a JSON object a text, on a line of its own, with figures");
  add("logits", cli::flag(&options.logits), "with --json: all logits that each new token was chosen from, too");
  return description;
}

void require(bool holds, const std::string& problem, const std::string& why, const std::string& what_to_do) {
  if (!holds) throw_config_error(problem, why, what_to_do);
}

void check_sampling(const generate::Sampling& sampling, const po::variables_map& values) {
  const auto [temperature, top_k, top_p, seed] = sampling;
  require(std::isfinite(temperature) && temperature >= 0, fmt::format("temperature is {}", temperature),
          "it must be 0 or more", "leave it out for the likeliest tokens");
  require(top_k >= 0, fmt::format("top_k is {}", top_k), "it must be 0 or more", "leave it out for all tokens");
  require(top_p > 0 && top_p <= 1, fmt::format("top_p is {}", top_p), "it must be above 0 and at most 1",
          "leave it out for all tokens");
  require(temperature > 0 || (top_k == 0 && top_p == 1), "top_k and top_p do nothing at temperature 0",
          "the likeliest token is always taken then", "give --temperature 1 too, or leave them out");
  require(values["seed"].as<std::int64_t>() >= 0, fmt::format("seed is {}", values["seed"].as<std::int64_t>()),
          "it must be 0 or more", "leave it out for 0");
}

}  // namespace

std::optional<GenerateOptions> read_generate_options(const std::vector<std::string>& arguments) {
  GenerateOptions options;
  const std::optional<po::variables_map> values = read_options(about_generate(), describe(options), arguments);
  if (!values) return std::nullopt;
  require(values->count("operand") != 0, "no model", "sft-generate needs a folder such as output/demo",
          "see sft-generate --help");
  options.model = (*values)["operand"].as<std::string>();
  const bool has_empty = std::ranges::any_of(options.prompts, [](const std::string& text) { return text.empty(); });
  require((options.chat || !options.prompts.empty()) && !has_empty, "no prompt", "there is nothing to continue",
          "give --prompt TEXT");
  constexpr std::int64_t limit = 1 << 20;
  const bool is_talk = options.chat && options.prompts.empty();
  options.max_new_tokens = values->count("max_new_tokens") != 0 ? (*values)["max_new_tokens"].as<std::int64_t>()
                           : is_talk                            ? 1024
                                                                : 128;
  const std::string range = fmt::format("it must be from 1 to {}", limit);
  require(options.max_new_tokens >= 1 && options.max_new_tokens <= limit,
          fmt::format("max_new_tokens is {}", options.max_new_tokens), range,
          fmt::format("leave it out for {}", is_talk ? 1024 : 128));
  require(options.max_length >= 1 && options.max_length <= limit, fmt::format("max_length is {}", options.max_length),
          range, "leave it out for 4096");
  require(options.chat || (options.system.empty() && options.chat_template_path.empty()),
          "--system and --chat_template_path do nothing without --chat", "a prompt is continued as it is",
          "give --chat too, or leave them out");
  require(options.json || !options.logits, "--logits does nothing without --json", "a text has no place for them",
          "give --json too, or leave it out");
  check_sampling(options.sampling, *values);
  options.sampling.seed = static_cast<std::uint64_t>((*values)["seed"].as<std::int64_t>());
  const auto dtype = (*values)["dtype"].as<std::string>();
  require(dtype == "float32" || dtype == "bfloat16", fmt::format("dtype is {}", dtype),
          "sft-generate computes in two types", "give float32 or bfloat16");
  options.dtype = dtype == "float32" ? DType::float32 : DType::bf16;
  return options;
}

cli::Manual generate_manual() {
  GenerateOptions options;
  return cli::manual_of(about_generate(), describe(options));
}

}  // namespace sft::apps
