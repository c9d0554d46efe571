// SPDX-License-Identifier: Apache-2.0
// Continues prompts with a model, or talks with it, on one rank.
//
//   ./sft-generate output/demo --prompt $'What is a puppy?\n'
//   ./sft-generate models/chat --chat --temperature 0.7 --top_p 0.9
//   ./sft-generate models/chat --adapter output/chat/adapter --chat --prompt "Hello" --json

#include <unistd.h>

#include <fmt/core.h>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "answer_printer.hpp"
#include "apps/common/json_text.hpp"
#include "chat_markup.hpp"
#include "line_reader.hpp"
#include "options.hpp"
#include "sft/comm/collectives.hpp"
#include "sft/comm/session.hpp"
#include "sft/config/valid_config.hpp"
#include "sft/core/error.hpp"
#include "sft/core/log.hpp"
#include "sft/core/program.hpp"
#include "sft/core/stop_signals.hpp"
#include "sft/device/factory.hpp"
#include "sft/generate/generate.hpp"
#include "sft/hub/model_config.hpp"
#include "sft/text/tokenizer.hpp"
#include "text_model.hpp"

namespace {

using namespace sft;

/// What all texts of this program have in common.
struct Writer {
  const apps::GenerateOptions& options;
  const text::Tokenizer& tokenizer;
  generate::Generator& generator;
  std::vector<text::TokenId> stop_tokens;
};

/// The most tokens of a conversation: those asked for, or fewer where the model forgets or turns otherwise beyond them.
std::int64_t conversation_length(const config::Model& model, std::int64_t asked) {
  const config::RopeScaling& scaling = model.rope_scaling;
  using config::RopeType;
  const bool changes = scaling.rope_type == RopeType::dynamic || scaling.rope_type == RopeType::longrope;
  return changes ? std::min<std::int64_t>(asked, scaling.original_max_position_embeddings) : asked;
}

std::vector<text::TokenId> stop_tokens_of(const text::Tokenizer& tokenizer, const apps::TextModel& model,
                                          const apps::ChatMarkup* markup) {
  std::vector<text::TokenId> tokens;
  if (!model.generation_folder.empty()) tokens = hub::read_eos_token_ids(model.generation_folder);
  if (const auto trained = tokenizer.id_of(model.markup.eos_token)) tokens.push_back(*trained);
  if (tokenizer.specials().eos) tokens.push_back(*tokenizer.specials().eos);
  if (const auto turn_end = tokenizer.id_of("<|im_end|>")) tokens.push_back(*turn_end);
  if (markup != nullptr) {
    if (const auto turn_end = markup->end_of_turn()) tokens.push_back(*turn_end);
  }
  return tokens;
}

void require_usable(const std::vector<text::TokenId>& tokens, const config::Model& model) {
  if (tokens.empty()) {
    throw_config_error("a prompt has no token", "the tokenizer leaves nothing of it", "give a longer one");
  }
  const auto unknown = std::ranges::find_if(tokens, [&](text::TokenId id) { return id >= model.vocab_size; });
  if (unknown == tokens.end()) return;
  throw_config_error(fmt::format("token {} of the prompt is none of the model's", *unknown),
                     fmt::format("it has vocab_size = {}", model.vocab_size),
                     "give the tokenizer that belongs to the model with --tokenizer");
}

/// Of any text: what the tokenizer puts around it comes along. Bytes that spell a special token of the byte tokenizer
/// are bytes, as in its data.
std::vector<text::TokenId> encode_text(const text::Tokenizer& tokenizer, const std::string& prompt) {
  if (tokenizer.name() == "byte") return tokenizer.encode(prompt);
  return tokenizer.encode(prompt, {.add_special_tokens = true});
}

std::vector<text::Message> first_messages(const apps::GenerateOptions& options) {
  if (options.system.empty()) return {};
  return {{"system", options.system}};
}

/// A text, its tokens, and why it ended.
struct Answer {
  std::string text;
  generate::Generated generated;
  bool is_interrupted = false;
};

std::string json_of(const std::string& prompt, const std::vector<text::TokenId>& prompt_tokens, const Answer& answer) {
  const generate::Generated& generated = answer.generated;
  const auto num_timed = static_cast<double>(std::max<std::int64_t>(std::ssize(generated.tokens) - 1, 0));
  const char* reason = generated.is_stopped ? "stop" : answer.is_interrupted ? "interrupt" : "length";
  nlohmann::ordered_json object = {
      {"prompt", prompt},
      {"text", answer.text},
      {"finish_reason", reason},
      {"num_prompt_tokens", prompt_tokens.size()},
      {"num_new_tokens", generated.tokens.size()},
      {"read_time_s", generated.read_time_s},
      {"write_time_s", generated.write_time_s},
      {"tokens_per_second", generated.write_time_s > 0 ? num_timed / generated.write_time_s : 0.0},
      {"prompt_tokens", prompt_tokens},
      {"new_tokens", generated.tokens}};
  if (!generated.logits.empty()) object["logits"] = generated.logits;
  return apps::json_text(object, /*indent=*/-1);
}

/// Writes what follows the prompt and prints it. `interrupt`, unless null, may end it early.
Answer write_answer(Writer& writer, generate::Sampler& sampler, const std::string& prompt,
                    const std::vector<text::TokenId>& prompt_tokens, std::int64_t max_new_tokens,
                    const StopSignals* interrupt) {
  const auto text_of = [&](std::span<const text::TokenId> tokens) {
    return writer.tokenizer.decode(tokens, /*skip_special_tokens=*/true);
  };
  apps::AnswerPrinter printer;
  const bool is_shown_at_once = !writer.options.json && ::isatty(STDOUT_FILENO) != 0;
  Answer answer;
  const auto go_on = [&](std::span<const text::TokenId> tokens) {
    if (is_shown_at_once) printer.show(text_of(tokens));
    answer.is_interrupted = interrupt != nullptr && interrupt->received() != 0;
    return !answer.is_interrupted;
  };
  answer.generated = generate::generate(writer.generator, sampler, prompt_tokens,
                                        {.max_new_tokens = max_new_tokens,
                                         .num_token_ids = writer.tokenizer.vocab_size(),
                                         .stop_tokens = writer.stop_tokens,
                                         .keeps_logits = writer.options.logits},
                                        go_on);
  answer.text = text_of(answer.generated.tokens);
  if (writer.options.json) {
    log_info(json_of(prompt, prompt_tokens, answer));
  } else {
    printer.finish(answer.text);
  }
  return answer;
}

/// For a person beside the conversation.
void note(const std::string& line) {
  std::fputs(fmt::format("({})\n", printable(line, /*keep_layout=*/false)).c_str(), stderr);
}

/// A conversation: reads messages and answers them, until the input ends.
class Talk {
 public:
  Talk(Writer& writer, const apps::ChatMarkup& markup, const config::Model& model)
      : writer_(writer),
        markup_(markup),
        model_(model),
        sampler_(writer.options.sampling),
        messages_(first_messages(writer.options)) {}

  void hold() {
    if (reader_.is_terminal()) note(commands);
    while (true) {
      const apps::LineReader::Line line = reader_.read("> ");
      using Ending = apps::LineReader::Ending;
      if (line.ending == Ending::end_of_input || line.text == "/exit") return;
      if (line.ending == Ending::interrupt) {
        if (line.text.empty()) return;
      } else if (line.text == "/clear") {
        messages_ = first_messages(writer_.options);
      } else if (line.text == "/help") {
        note(commands);
      } else if (!line.text.empty()) {
        answer(line.text);
      }
    }
  }

 private:
  static constexpr const char* commands =
      "/clear begins a new conversation, /exit or Ctrl-D ends the program, Ctrl-C interrupts an answer";

  void answer(const std::string& message) {
    messages_.push_back({"user", message});
    const std::vector<text::TokenId> tokens = markup_.prompt(messages_);
    require_usable(tokens, model_);
    const std::int64_t room = writer_.generator.max_tokens() - std::ssize(tokens);
    if (room < 1) {
      messages_.pop_back();
      log_warning(fmt::format(
          "the conversation has no room for this message (max_length is {} tokens): /clear begins a new one",
          writer_.generator.max_tokens()));
      return;
    }
    const std::int64_t max_new_tokens = std::min(room, writer_.options.max_new_tokens);
    const bool is_person = reader_.is_terminal();
    std::optional<StopSignals> interrupt;
    if (is_person) interrupt.emplace({SIGINT});
    Answer said = write_answer(writer_, sampler_, message, tokens, max_new_tokens, interrupt ? &*interrupt : nullptr);
    if (is_person && !said.generated.is_stopped && !said.is_interrupted) {
      note(fmt::format("cut after {} tokens ({})", max_new_tokens,
                       max_new_tokens == room ? "max_length" : "max_new_tokens"));
    }
    messages_.push_back({"assistant", std::move(said.text)});
  }

  Writer& writer_;
  const apps::ChatMarkup& markup_;
  const config::Model& model_;
  generate::Sampler sampler_;  // one sequence of random numbers for all turns
  std::vector<text::Message> messages_;
  apps::LineReader reader_;
};

int run(comm::Session& session, const apps::GenerateOptions& options) {
  // 1. What is asked
  session.world().agree([&] {
    if (session.world().size() == 1) return;
    throw_config_error(fmt::format("sft-generate was started on {} ranks", session.world().size()), "it runs on one",
                       "start it without mpirun");
  });

  // 2. Model, tokenizer and markup
  const apps::TextModel found = apps::find_text_model(options.model, options.adapter, options.tokenizer);
  for (const std::string& warning : found.warnings) log_warning(warning);
  (void)config::validate(found.model);
  const std::unique_ptr<text::Tokenizer> tokenizer = text::make_tokenizer(found.tokenizer);
  std::optional<apps::ChatMarkup> markup;
  if (options.chat) markup.emplace(*tokenizer, options.chat_template_path, found.markup.chat_template);

  // 3. Prompts
  std::vector<std::vector<text::TokenId>> prompts;
  std::size_t longest = 0;
  for (const std::string& prompt : options.prompts) {
    if (markup) {
      std::vector<text::Message> messages = first_messages(options);
      messages.push_back({"user", prompt});
      prompts.push_back(markup->prompt(messages));
    } else {
      prompts.push_back(encode_text(*tokenizer, prompt));
    }
    require_usable(prompts.back(), found.model);
    longest = std::max(longest, prompts.back().size());
  }
  const bool is_talk = prompts.empty();
  const std::int64_t max_length = is_talk ? conversation_length(found.model, options.max_length)
                                          : static_cast<std::int64_t>(longest) + options.max_new_tokens;
  config::validate_length(found.model, max_length, "prompt and answer");
  if (found.trained_length > 0 && max_length > found.trained_length) {
    log_warning(fmt::format("{} come to {} tokens (rows had {} in training): text beyond that is guesswork",
                            is_talk ? "the conversation may" : "prompt and max_new_tokens", max_length,
                            found.trained_length));
  }

  // 4. Weights
  const std::unique_ptr<device::Device> device = device::make_device(device::Kind::cpu);
  const std::unique_ptr<comm::Collectives> collectives = comm::make_collectives(*device, {});
  device::Ledger ledger;
  generate::Generator generator(found.model, options.dtype, max_length, session.world(), *device, *collectives, ledger);
  apps::load_text_model(found, session.world(), generator.weights(), *device, generator.stream());

  // 5. Text
  Writer writer{options, *tokenizer, generator, stop_tokens_of(*tokenizer, found, markup ? &*markup : nullptr)};
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    const std::string& prompt = options.prompts[i];
    if (!options.json) log_info(fmt::format("> {}", printable(prompt, /*keep_layout=*/false)));
    generate::Sampler sampler(options.sampling);
    static_cast<void>(write_answer(writer, sampler, prompt, prompts[i], options.max_new_tokens, nullptr));
  }
  if (is_talk) Talk(writer, *markup, found.model).hold();
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  sft::raise_open_file_limit();
  std::optional<apps::GenerateOptions> options;  // none: all is said
  const int status = comm::run_before_mpi([&] { options = apps::read_generate_options(arguments); });
  if (!options) return status;
  return comm::run_program(argc, argv, [&](comm::Session& session) { return run(session, *options); });
}
