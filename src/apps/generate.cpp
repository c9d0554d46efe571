// SPDX-License-Identifier: Apache-2.0
// Continues prompts with a trained model, on one rank, the likeliest token at a time.
//
//   ./sft-generate output/demo --prompt $'What is a puppy?\n'
//   ./sft-generate output/chat/checkpoint-001400 --chat --prompt "Hello" --max_new_tokens 64
//
// A prompt is tokenized as sft-prepare tokenizes the prompt of prompt/completion records; --chat makes it the message
// of a user. Text ends at <|eos|> or <|im_end|>.

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "checkpoint_at.hpp"
#include "generate_options.hpp"
#include "printable.hpp"
#include "sft/checkpoint/checkpoint.hpp"
#include "sft/comm/collectives.hpp"
#include "sft/comm/session.hpp"
#include "sft/config/parse.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/device/factory.hpp"
#include "sft/io/files.hpp"
#include "sft/mesh/groups.hpp"
#include "sft/text/chat.hpp"
#include "sft/text/tokenizer.hpp"
#include "sft/train/engine.hpp"
#include "sft/train/generate.hpp"

namespace {

using namespace sft;

/// The configuration that the checkpoint carries, on one rank and in float32.
config::Config single_rank_config(const std::string& config_ini, const std::string& source) {
  config::Config config = config::parse(config_ini, {}, source);
  config.parallel = {};
  config.train.per_device_train_batch_size = 1;
  config.train.gradient_accumulation_steps = 1;
  config.train.precision = config::Precision::fp32;
  config::validate(config, 1);
  return config;
}

std::vector<text::TokenId> encode_prompt(const std::string& prompt, bool chat, const text::Tokenizer& tokenizer) {
  if (!chat) return tokenizer.encode(prompt);
  const std::array<text::Message, 1> messages{text::Message{"user", prompt}};
  std::vector<text::TokenId> tokens = text::render_chatml(messages, tokenizer).tokens;
  const std::vector<text::TokenId> request = text::chatml_generation_prompt(tokenizer);
  tokens.insert(tokens.end(), request.begin(), request.end());
  return tokens;
}

int run(comm::Session& session, const std::vector<std::string>& arguments) {
  // 1. What is asked
  std::optional<apps::GenerateOptions> options;
  session.world().agree([&] { options = apps::read_generate_options(arguments); });
  if (!options) return static_cast<int>(ExitStatus::done);
  session.world().agree([&] {
    if (session.world().size() == 1) return;
    throw_config_error("sft-generate was started on " + std::to_string(session.world().size()) + " ranks",
                       "it runs on one", "start it without mpirun");
  });

  // 2. Model and tokenizer of the checkpoint
  const std::string folder = apps::checkpoint_at(options->checkpoint);
  const checkpoint::Header header = checkpoint::read_header(folder);
  const config::Config config = single_rank_config(header.config_ini, folder);
  const std::unique_ptr<text::Tokenizer> tokenizer = text::make_tokenizer(header.tokenizer);

  // 3. Prompts
  std::vector<std::vector<text::TokenId>> prompts;
  std::size_t longest = 0;
  for (const std::string& prompt : options->prompts) {
    prompts.push_back(encode_prompt(prompt, options->chat, *tokenizer));
    longest = std::max(longest, prompts.back().size());
  }

  // 4. Engine
  const std::unique_ptr<device::Device> device = device::make_device(device::Kind::cpu, 0, 1);
  const mesh::Place place(config, 0);
  const mesh::Groups groups(session.world(), place);
  const std::unique_ptr<comm::Collectives> collectives = comm::make_collectives(*device, {});
  device::Ledger ledger;
  const std::int64_t max_length = static_cast<std::int64_t>(longest) + options->max_new_tokens;
  if (const std::int64_t trained = header.position.max_length; trained > 0 && max_length > trained) {
    log_warning("prompt and max_new_tokens come to " + std::to_string(max_length) + " tokens (rows had " +
                std::to_string(trained) + " in training): text beyond that is guesswork");
  }
  train::Engine engine(config, max_length, place, groups, *device, *collectives, ledger);

  // 5. Weights
  static_cast<void>(checkpoint::load(folder, session.world(), engine.state(), *device, engine.stream()));

  // 6. Text
  train::GenerateOptions generate_options{options->max_new_tokens, tokenizer->vocab_size(), {tokenizer->eos()}};
  if (const auto turn_end = tokenizer->id_of("<|im_end|>")) generate_options.stop_tokens.push_back(*turn_end);
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    log_info("> " + apps::printable(options->prompts[i], /*keep_newlines=*/false));
    const std::vector<text::TokenId> tokens = train::generate(engine, prompts[i], generate_options);
    log_info(apps::printable(tokenizer->decode(tokens), /*keep_newlines=*/true));
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  sft::io::raise_open_file_limit();
  return sft::comm::run_program(argc, argv, [&](sft::comm::Session& session) { return run(session, arguments); });
}
