// SPDX-License-Identifier: Apache-2.0
#include "sft/prepare/example.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <filesystem>
#include <utility>

#include "prepare/answers.hpp"
#include "prepare/conversation.hpp"
#include "prepare/encoder.hpp"
#include "prepare/other_forms.hpp"
#include "prepare/other_names.hpp"
#include "prepare/record.hpp"
#include "sft/core/error.hpp"
#include "sft/io/files.hpp"

namespace sft::prepare {

namespace {

constexpr std::size_t max_names = 64;
constexpr const char* byte_tokenizer = "byte";

constexpr const char* no_pictures = "pictures cannot be trained on";
constexpr const char* no_films = "films cannot be trained on";
constexpr const char* no_sound = "sound cannot be trained on";
constexpr std::array media = {FormlessField{"images", no_pictures}, FormlessField{"image", no_pictures},
                              FormlessField{"videos", no_films},    FormlessField{"video", no_films},
                              FormlessField{"audios", no_sound},    FormlessField{"audio", no_sound}};
constexpr const char* only_in_chats = "only conversations show tools";
constexpr std::array formless_in_chats = {FormlessField{"functions", "only 'tools' are shown: rename them"}};
constexpr std::array formless_in_text = {FormlessField{"tools", only_in_chats},
                                         FormlessField{"functions", only_in_chats}};
constexpr const char* no_roles =
    "a prompt and completion of plain text have no roles; --rename prompt=instruction,completion=output makes a "
    "conversation of them";
constexpr std::array formless_in_pairs = {formless_in_text[0], formless_in_text[1], FormlessField{"system", no_roles}};

enum class Shape { input_ids, pair_of_strings, pair_of_messages, messages, sharegpt, alpaca, text, prompted };

constexpr const char* name_of(Shape shape) {
  switch (shape) {
    case Shape::input_ids:
      return "token ids";
    case Shape::pair_of_strings:
    case Shape::pair_of_messages:
      return "prompt-completion";
    case Shape::messages:
      return "messages";
    case Shape::sharegpt:
      return "ShareGPT";
    case Shape::alpaca:
      return "Alpaca";
    case Shape::text:
      return "text";
    case Shape::prompted:
      return "prompt template";
  }
  return "";
}

[[noreturn]] void refuse_shape(const Json& record, const std::string& text_field) {
  refuse_other_names(record);
  constexpr std::size_t max_shown = 20;
  std::string keys;
  std::size_t num_shown = 0;
  for (const auto& [key, value] : record.items()) {
    if (num_shown++ == max_shown) break;
    keys += fmt::format("{}{}'{}", (keys.empty() ? "'" : ", '"), key, (value.is_null() ? " (null)" : ""));
  }
  if (record.size() > max_shown) keys += fmt::format(" and {} more", record.size() - max_shown);
  const auto num_texts = std::ranges::count_if(record, [](const Json& value) { return value.is_string(); });
  const char* advice = num_texts > 1    ? ": --rename FIELD=prompt,FIELD=completion names a question and its answer, "
                                          "--dataset_text_field FIELD a text"
                       : num_texts == 1 ? ": --dataset_text_field FIELD names a text"
                                        : "";
  refuse_record(fmt::format("it has neither 'messages', nor 'prompt' and 'completion', nor '{}', but {}{}", text_field,
                            keys.empty() ? "no keys" : keys, advice));
}

Shape shape_of(const Json& record, const std::string& text_field) {
  const auto has = [&record](std::string_view key) { return has_value(record, key); };
  if (has("input_ids")) return Shape::input_ids;
  const bool has_chat = has("messages") || has("conversations");
  if (has("messages") && has("conversations")) {
    refuse_record(
        "it has 'messages' and also 'conversations', and only one of them can be meant: --ignore_fields conversations "
        "leaves one out");
  }
  if (has("prompt") || has("completion")) {
    if (has_chat) {
      const char* list = has("messages") ? "messages" : "conversations";
      if (has("prompt") && has("completion") && lacks_answer(record[list])) {
        refuse_record(
            fmt::format("it has 'prompt' and 'completion', and also '{0}', which ends before the assistant answers; "
                        "--ignore_fields {0} trains on the completion",
                        list));
      }
      refuse_unread_answer(record, list);
      const char* others = !has("completion") ? "prompt" : !has("prompt") ? "completion" : "prompt,completion";
      refuse_record(
          fmt::format("it has '{}' and also 'prompt' or 'completion', and only one of them can be meant; "
                      "--ignore_fields {} trains on the conversation",
                      list, others));
    }
    if (has("prompt") != has("completion")) {
      refuse_other_names(record);
      refuse_record(has("prompt") ? "it has a 'prompt' and no 'completion'" : "it has a 'completion' and no 'prompt'");
    }
    const bool has_messages = record["prompt"].is_array() || record["completion"].is_structured();
    return has_messages ? Shape::pair_of_messages : Shape::pair_of_strings;
  }
  if (has("messages")) return Shape::messages;
  if (has("conversations")) return Shape::sharegpt;
  if (has(text_field)) return Shape::text;
  if (has("instruction") && has("output")) return Shape::alpaca;
  refuse_shape(record, text_field);
}

/// Refuses a record that has no completion for the prompt of a template.
[[noreturn]] void refuse_without_output(const Json& record) {
  for (const char* shape : {"messages", "conversations", "input_ids"}) {
    if (!has_value(record, shape)) continue;
    refuse_record(
        fmt::format("it has '{}', and the prompt template needs an 'output'; leave --prompt_template out, or "
                    "prepare such records apart",
                    shape));
  }
  const std::string answer = answer_in(record);
  refuse_record(
      answer.empty()
          ? std::string("it has no 'output', which the prompt template needs; --rename FIELD=output makes one")
          : fmt::format("it has '{0}' and no 'output', which the prompt template needs: give --rename "
                        "{0}=output",
                        answer));
}

ChatTemplate compile_prompt(const std::string& source) {
  try {
    return ChatTemplate(source);
  } catch (const Error& error) {
    throw_config_error("cannot use the prompt template", error.what(), "correct --prompt_template");
  }
}

/// `vocab_size` of the model's config.json, also where it stands among its text_config; 0: there is none.
std::int64_t model_vocab_size(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "config.json").string();
  if (!std::filesystem::exists(path)) return 0;
  using nlohmann::json;
  const json config = json::parse(io::read_file(path), nullptr, false);
  if (!config.is_object())
    throw_data_error(fmt::format("cannot read '{}'", path), "it is not a JSON object", "get it again");
  const auto size_in = [](const json& object) -> std::int64_t {
    const auto found = object.find("vocab_size");
    return found != object.end() && found->is_number_integer() ? found->get<std::int64_t>() : 0;
  };
  if (const std::int64_t size = size_in(config); size > 0) return size;
  return config.contains("text_config") && config["text_config"].is_object() ? size_in(config["text_config"]) : 0;
}

/// The id of a token that an option names, else the tokenizer's own.
std::optional<text::TokenId> token_id(const text::Tokenizer& tokenizer, const std::string& name, const char* option,
                                      std::optional<text::TokenId> own) {
  if (name.empty()) return own;
  const std::optional<text::TokenId> id = tokenizer.id_of(name);
  if (!id) {
    throw_config_error(fmt::format("{} = {} is impossible", option, name), "the vocabulary has no such token",
                       "name a token of " + tokenizer.name());
  }
  return id;
}

}  // namespace

void NameCounts::add(const std::string& name, std::int64_t count) {
  if (const auto found = by_name_.find(name); found != by_name_.end()) {
    found->second += count;
  } else if (by_name_.size() < max_names) {
    by_name_.emplace(name, count);
  } else {
    num_others_ += count;
  }
}

void NameCounts::add(const NameCounts& others) {
  for (const auto& [name, count] : others.by_name_) add(name, count);
  num_others_ += others.num_others_;
}

void RecordCensus::add(const RecordCensus& more) {
  shapes.add(more.shapes);
  ignored_fields.add(more.ignored_fields);
  dropped_fields.add(more.dropped_fields);
  roles.add(more.roles);
  num_split_prompts += more.num_split_prompts;
  num_ignored_masks += more.num_ignored_masks;
  num_empty_tool_lists += more.num_empty_tool_lists;
  num_plain_calls += more.num_plain_calls;
  num_hidden_contents += more.num_hidden_contents;
  num_unmarked_chats += more.num_unmarked_chats;
}

struct ExampleMaker::Impl {
  ExampleOptions options;
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::unique_ptr<Encoder> encoder;
  std::int64_t vocab_size = 0;
  std::optional<text::TokenId> eos, pad;
  Markup markup;
  std::vector<text::TokenId> turn_ends;
  std::optional<ChatTemplate> prompt_template;
  std::chrono::system_clock::time_point template_date;

  [[nodiscard]] NamedTokens named_tokens() const {
    text::SpecialTokens tokens = tokenizer->specials();
    tokens.eos = eos;
    tokens.pad = pad;
    return {eos ? tokenizer->token_of(*eos) : "", token_variables(*tokenizer, tokens)};
  }

  /// A token that the model has no row for is a fault of the folder, whatever record shows it first.
  void require_rows_for(const std::vector<text::TokenId>& tokens) const {
    const auto beyond = std::ranges::find_if(tokens, [this](text::TokenId id) { return id >= vocab_size; });
    if (beyond == tokens.end()) return;
    throw_data_error(fmt::format("cannot use the tokenizer of '{}' with its model", tokenizer->name()),
                     fmt::format("it makes the token {}, '{}', and the vocab_size of config.json is {}", *beyond,
                                 tokenizer->token_of(*beyond), vocab_size),
                     "resize the embeddings of the model, or take the tokenizer that it was trained with");
  }

  void require_roles(const char* shape) const {
    if (options.assistant_only_loss) {
      refuse_record(fmt::format("assistant_only_loss needs messages with roles, and {}; leave it out", shape));
    }
  }

  [[nodiscard]] Document of_chat(const Conversation& chat, RecordCensus& census) const {
    const TrainedParts parts = {.completion_only = options.completion_only_loss.value_or(chat.has_prompt),
                                .assistant_only = options.assistant_only_loss,
                                .turn_ends = turn_ends};
    return encoder->of_chat(chat, parts, census);
  }

  [[nodiscard]] Document of_prompted(const Json& record, RecordCensus& census) const {
    require_roles("a prompt template makes plain text");
    for (const auto& [name, value] : record.items()) {
      const auto medium = std::ranges::find(media, name, &FormlessField::name);
      if (medium != media.end() && !is_empty(value)) {
        refuse_unshown(name, fmt::format("the record has '{}', and {}", name, medium->why));
      }
      if (!value.is_null() && name != "output" && !prompt_template->mentions(name)) census.ignored_fields.add(name);
    }
    try {
      const jinja::RenderOptions fields_only = {.limits = {}, .now = template_date, .has_values_only = true};
      return encoder->of_parts(prompt_template->render(record, fields_only).text,
                               string_of(record, "output", "the record"), options.completion_only_loss.value_or(true));
    } catch (const Error& error) {
      refuse_record(std::string("the prompt template refuses it: ") + error.what());
    }
  }

  [[nodiscard]] Document document_of(const Json& record, Shape shape, RecordCensus& census) const {
    const auto check = [&](std::span<const FormlessField> formless, std::initializer_list<std::string_view> used) {
      std::vector<FormlessField> all(media.begin(), media.end());
      all.insert(all.end(), formless.begin(), formless.end());
      check_fields(record, all, "the record", used, "", census);
    };
    refuse_unwanted(record);
    switch (shape) {
      case Shape::input_ids:
        check_fields(record, {}, "the record", {"input_ids", "labels", "completion_mask", "assistant_masks"}, "",
                     census);
        return document_of_ids(record, std::max(vocab_size, tokenizer->vocab_size()), options, census);
      case Shape::pair_of_strings: {
        check(formless_in_pairs, {"prompt", "completion"});
        require_roles("prompt and completion are plain strings");
        const std::string& prompt = string_of(record, "prompt", "the record");
        return encoder->of_pair(prompt, string_of(record, "completion", "the record"),
                                options.completion_only_loss.value_or(true), census);
      }
      case Shape::pair_of_messages:
        check(formless_in_chats, {"prompt", "completion", "system", "tools", "chat_template_kwargs"});
        return of_chat(chat_of_pair(record, census), census);
      case Shape::messages:
        refuse_unread_answer(record, "messages");
        check(formless_in_chats, {"messages", "system", "mask", "tools", "chat_template_kwargs"});
        return of_chat(chat_of_messages(record, census), census);
      case Shape::sharegpt:
        refuse_unread_answer(record, "conversations");
        check(formless_in_chats, {"conversations", "system", "mask", "tools", "chat_template_kwargs"});
        return of_chat(chat_of_sharegpt(record, census), census);
      case Shape::alpaca:
        check(formless_in_chats,
              {"instruction", "input", "output", "system", "history", "tools", "chat_template_kwargs"});
        return of_chat(chat_of_alpaca(record, census), census);
      case Shape::text:
        check(formless_in_text, {options.dataset_text_field});
        require_roles("plain text has none");
        return encoder->of_text(string_of(record, options.dataset_text_field, "the record"));
      case Shape::prompted:
        return of_prompted(record, census);
    }
    return {};
  }
};

ExampleMaker::ExampleMaker(const TextOptions& text, ExampleOptions options) {
  auto impl = std::make_unique<Impl>();
  impl->options = std::move(options);
  impl->template_date = text.template_date;
  impl->tokenizer = text::make_tokenizer(text.tokenizer);
  const text::Tokenizer& tokenizer = *impl->tokenizer;
  impl->eos = token_id(tokenizer, text.eos_token, "eos_token", tokenizer.specials().eos);
  impl->pad = token_id(tokenizer, text.pad_token, "pad_token", tokenizer.specials().pad);
  if (!impl->pad) impl->pad = impl->eos;
  for (const std::string& name : impl->options.end_of_turn) {
    const auto id = name == "eos" ? impl->eos : token_id(tokenizer, name, "end_of_turn", std::nullopt);
    if (id) impl->turn_ends.push_back(*id);
  }
  if (!impl->options.prompt_template.empty())
    impl->prompt_template.emplace(compile_prompt(impl->options.prompt_template));
  const bool is_byte = text.tokenizer == byte_tokenizer;
  impl->vocab_size = is_byte ? 0 : model_vocab_size(text.tokenizer);
  if (impl->vocab_size == 0) impl->vocab_size = tokenizer.vocab_size();
  if (is_byte && text.chat_template_path.empty() && text.chat_template.empty()) {
    impl->encoder = make_chatml_encoder(tokenizer, *impl->eos);
  } else {
    ChatTemplates templates = !text.chat_template.empty()
                                  ? given_chat_template(text.chat_template)
                                  : load_chat_templates(text.chat_template_path, is_byte ? "" : text.tokenizer);
    if (!is_byte) {
      impl->markup = {.eos_token = impl->eos ? tokenizer.token_of(*impl->eos) : "",
                      .pad_token = impl->pad ? tokenizer.token_of(*impl->pad) : "",
                      .chat_template = templates.standard ? templates.standard->source() : ""};
    }
    impl->encoder = make_template_encoder(tokenizer, impl->named_tokens(), std::move(templates), text.template_date);
  }
  impl_ = std::move(impl);
}

ExampleMaker::~ExampleMaker() = default;

Document ExampleMaker::make(std::string record, RecordCensus& census) const {
  Json json = parse_record(std::exchange(record, {}));
  if (!impl_->options.columns.empty()) keep_fields(json, impl_->options.columns, census);
  drop_fields(json, impl_->options.ignore_fields, census);
  rename_fields(json, impl_->options.rename_fields);
  refuse_tables(json);
  decode_texts(json);
  drop_fields_of_messages(json, impl_->options.ignore_fields, census);
  if (impl_->prompt_template && !has_value(json, "output")) refuse_without_output(json);
  const Shape shape = impl_->prompt_template ? Shape::prompted : shape_of(json, impl_->options.dataset_text_field);
  Document document = impl_->document_of(json, shape, census);
  impl_->require_rows_for(document.tokens);
  census.shapes.add(name_of(shape));
  return document;
}

const text::Tokenizer& ExampleMaker::tokenizer() const { return *impl_->tokenizer; }
std::int64_t ExampleMaker::vocab_size() const { return impl_->vocab_size; }
std::int32_t ExampleMaker::pad_token_id() const { return impl_->pad ? *impl_->pad : impl_->tokenizer->pad(); }
std::int32_t ExampleMaker::eos_token_id() const { return impl_->eos.value_or(-1); }
const Markup& ExampleMaker::markup() const { return impl_->markup; }

}  // namespace sft::prepare
