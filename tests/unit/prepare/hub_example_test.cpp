// SPDX-License-Identifier: Apache-2.0
// Records with the tokenizer and chat template of a model folder.

#include <algorithm>
#include <boost/test/unit_test.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "sft/core/error.hpp"
#include "sft/io/files.hpp"
#include "sft/prepare/example.hpp"
#include "support/temporary_folder.hpp"

using namespace sft::prepare;

namespace hub_example {
namespace {

const std::string chatml =
    "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}"
    "{%- if message.content is string %}{{- message.content }}{%- endif %}"
    "{%- for call in message.tool_calls or [] %}{{- '[' + call.name + ']' }}{%- endfor %}"
    "{{- '<|im_end|>\\n' }}{%- endfor %}"
    "{%- if tools %}{{- tools | tojson }}{%- endif %}"
    "{%- if loud %}{{- '!' }}{%- endif %}"
    "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";

constexpr std::int64_t num_ordinary_tokens = 330;

/// A model folder with a byte-level tokenizer of the tests of tokenizers and the two tokens of ChatML.
struct Fixture {
  Fixture() {
    options.tokenizer = folder.path();
    std::ifstream fixture(SFT_SOURCE_DIR "/tests/unit/text/fixtures/gpt2.json");
    nlohmann::json tokenizer = nlohmann::json::parse(fixture).at("tokenizer");
    for (const char* name : {"<|im_start|>", "<|im_end|>"}) {
      nlohmann::json token = tokenizer.at("added_tokens").front();
      token["id"] = num_ordinary_tokens + tokenizer.at("added_tokens").size() - 1;
      token["content"] = name;
      tokenizer.at("added_tokens").push_back(token);
    }
    sft::io::write_file_atomically(folder.file("tokenizer.json"), tokenizer.dump());
    write_config(chatml);
  }
  void write_config(const nlohmann::json& chat_template) const {
    const nlohmann::json config = {
        {"eos_token", "<|im_end|>"}, {"pad_token", "<|im_end|>"}, {"chat_template", chat_template}};
    sft::io::write_file_atomically(folder.file("tokenizer_config.json"), config.dump());
  }

  [[nodiscard]] Document document_of(const std::string& record, const ExampleOptions& example = {}) {
    return ExampleMaker(options, example).make(record, census);
  }
  /// What a record becomes, what is not trained on in brackets.
  [[nodiscard]] std::string rendered(const std::string& record, const ExampleOptions& example = {}) {
    const ExampleMaker maker(options, example);
    const Document document = maker.make(record, census);
    std::string text;
    for (std::size_t i = 0; i < document.tokens.size();) {
      std::size_t end = i;
      while (end < document.tokens.size() && document.loss_weight[end] == document.loss_weight[i]) ++end;
      const std::string part = maker.tokenizer().decode(std::span(document.tokens).subspan(i, end - i));
      text += document.loss_weight[i] > 0.0f ? part : "[" + part + "]";
      i = end;
    }
    return text;
  }
  [[nodiscard]] std::string refusal(const std::string& record, const ExampleOptions& example = {}) {
    try {
      (void)document_of(record, example);
    } catch (const std::invalid_argument& reason) {
      return reason.what();
    }
    return "";
  }

  sft::test::TemporaryFolder folder;
  TextOptions options;
  RecordCensus census;
};

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const std::string user = R"({"role": "user", "content": "Hi"})";
const std::string assistant = R"({"role": "assistant", "content": "Yo"})";
const ExampleOptions assistant_only = {.assistant_only_loss = true};

}  // namespace
}  // namespace hub_example

BOOST_FIXTURE_TEST_SUITE(hub_example, hub_example::Fixture)

BOOST_AUTO_TEST_CASE(the_name_of_eos_is_appended_to_texts_that_do_not_end_with_it) {
  BOOST_TEST(rendered(R"({"text": "Hi"})") == "Hi<|im_end|>");
  BOOST_TEST(rendered(R"({"text": "Hi<|im_end|>"})") == "Hi<|im_end|>");
  BOOST_TEST(rendered(R"({"text": "Hi<|im_end|>\n"})") == "Hi<|im_end|>\n<|im_end|>");
  BOOST_TEST(rendered(R"({"text": ""})") == "<|im_end|>");
  BOOST_TEST(document_of(R"({"text": ""})").tokens.size() == 1u);
}

BOOST_AUTO_TEST_CASE(another_eos_or_pad_token_is_one_of_the_vocabulary) {
  options.eos_token = "<|im_start|>";
  options.pad_token = "<|im_start|>";
  const ExampleMaker maker(options, {});
  BOOST_TEST(maker.eos_token_id() == maker.pad_token_id());
  BOOST_TEST(rendered(R"({"text": "Hi"})") == "Hi<|im_start|>");
  options.eos_token = "</s>";
  BOOST_CHECK_THROW(ExampleMaker(options, {}), sft::Error);
}

BOOST_AUTO_TEST_CASE(a_completion_begins_where_the_tokens_part) {
  BOOST_TEST(rendered(R"({"prompt": "Hi\n", "completion": "you"})") == "[Hi\n]you<|im_end|>");
  BOOST_TEST(rendered(R"({"prompt": "Hi\n", "completion": "you"})", {.completion_only_loss = false}) ==
             "Hi\nyou<|im_end|>");
  BOOST_TEST(rendered(R"({"prompt": "", "completion": "you"})") == "you<|im_end|>");
  // "the" is one token: with the prompt "th" its text is trained on as well.
  const std::size_t num_together = document_of(R"({"prompt": "", "completion": "the"})").tokens.size();
  const Document split = document_of(R"({"prompt": "th", "completion": "e"})");
  BOOST_TEST(split.tokens.size() == num_together);
  BOOST_TEST(split.loss_weight.front() == 1.0f);
  BOOST_TEST(census.num_split_prompts == 1);
}

BOOST_AUTO_TEST_CASE(conversations_are_written_by_the_template) {
  BOOST_TEST(rendered(R"({"messages": [)" + user + ", " + assistant + "]}") ==
             "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nYo<|im_end|>\n");
  BOOST_TEST(rendered(R"({"messages": [)" + user + ", " + assistant + "]}", assistant_only) ==
             "[<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n]Yo<|im_end|>\n");
  BOOST_TEST(rendered(R"({"prompt": [)" + user + R"(], "completion": [)" + assistant + "]}") ==
             "[<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n]Yo<|im_end|>\n");
  BOOST_TEST((census.roles.by_name() == std::map<std::string, std::int64_t>{{"assistant", 3}, {"user", 3}}));
}

BOOST_AUTO_TEST_CASE(both_masks_are_met_and_the_prompts_assistant_only_without_the_one) {
  const std::string record = R"({"prompt": [)" + assistant + ", " + user + R"(], "completion": [)" + assistant + ", " +
                             user + ", " + assistant + "]}";
  const std::string prompt =
      "<|im_start|>assistant\nYo<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n";
  BOOST_TEST(rendered(record, assistant_only) ==
             "[" + prompt + "]Yo<|im_end|>\n[<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n]Yo<|im_end|>\n");
  BOOST_TEST(rendered(record, {.completion_only_loss = false, .assistant_only_loss = true}) ==
             "[<|im_start|>assistant\n]Yo<|im_end|>\n[<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n]"
             "Yo<|im_end|>\n[<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n]Yo<|im_end|>\n");
}

BOOST_AUTO_TEST_CASE(weights_of_messages_reach_the_tokens_of_their_turns) {
  const Document document = document_of(
      R"({"messages": [{"role": "user", "content": "Hi", "train": false},
                       {"role": "assistant", "content": "Yo", "weight": 0.25}]})");
  const auto count = [&](float weight) { return std::ranges::count(document.loss_weight, weight); };
  BOOST_TEST(count(0.0f) > 4);
  BOOST_TEST(count(0.25f) > 4);
  BOOST_TEST(count(0.0f) + count(0.25f) == std::ssize(document.tokens));
}

BOOST_AUTO_TEST_CASE(roles_of_sharegpt_are_mapped_and_its_system_is_the_first_message) {
  BOOST_TEST(rendered(R"({"conversations": [{"from": "human", "value": "Hi"}, {"from": "gpt", "value": "Yo"}]})",
                      assistant_only) == "[<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n]Yo<|im_end|>\n");
  BOOST_TEST(rendered(R"({"system": "S", "conversations": [{"from": "user", "value": "Hi"}]})") ==
             "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n");
  BOOST_TEST(rendered(R"({"conversations": [{"from": "narrator", "value": "Hi"}]})") ==
             "<|im_start|>narrator\nHi<|im_end|>\n");
  BOOST_TEST(census.roles.by_name().at("narrator") == 1);
}

/// Shows the roles and calls that templates of models show, and the system message outside of the loop.
const std::string shows_calls =
    "{%- if messages[0].role == 'system' %}{{- '<|im_start|>system\n' + messages[0].content + '<|im_end|>\n' }}{% "
    "endif %}"
    "{%- for message in messages %}{%- if message.role in ['user', 'assistant', 'tool'] %}"
    "{{- '<|im_start|>' + message.role + '\n' }}"
    "{%- if message.tool_calls %}{%- for call in message.tool_calls %}{{- call.function | tojson }}{%- endfor %}"
    "{%- else %}{{- message.content }}{%- endif %}{{- '<|im_end|>\n' }}{%- endif %}{%- endfor %}";

BOOST_AUTO_TEST_CASE(calls_of_sharegpt_are_calls_of_the_template) {
  write_config(shows_calls);
  const auto text_of = [&](const std::string& value, const std::string& role = "function_call") {
    const nlohmann::json turns = {{{"from", "human"}, {"value", "w?"}},
                                  {{"from", role}, {"value", value}},
                                  {{"from", "observation"}, {"value", "22"}}};
    return rendered(nlohmann::json({{"conversations", turns}}).dump());
  };
  const auto expected = [](const std::string& call) {
    return "<|im_start|>user\nw?<|im_end|>\n<|im_start|>assistant\n" + call +
           "<|im_end|>\n<|im_start|>tool\n22<|im_end|>\n";
  };
  const std::string call = R"({"name": "f", "arguments": {"city": "Rome", "n": 123456789012345678901}})";
  BOOST_TEST(text_of(call) == expected(call));
  BOOST_TEST(text_of("[" + call + ", " + call + "]", "Tool_Call") == expected(call + call));
  BOOST_TEST(text_of(R"({"name": "f", "arguments": "{\"city\": 1.0}"})") ==
             expected(R"({"name": "f", "arguments": {"city": 1.0}})"));
  BOOST_TEST(text_of(R"({"id": "c1", "type": "function", "function": )" + call + "}") == expected(call));
  BOOST_TEST(census.ignored_fields.by_name().empty());
  BOOST_TEST(text_of(R"({"id": "c1", "name": "f", "type": "other", "arguments": {}, "index": 0})") ==
             expected(R"({"name": "f", "arguments": {}})"));
  const std::map<std::string, std::int64_t> ignored = {{"tool_calls[].index", 1}, {"tool_calls[].type", 1}};
  BOOST_TEST((census.ignored_fields.by_name() == ignored));
  BOOST_TEST(census.num_plain_calls == 0);
  for (const std::string plain : {R"({"name": "f"})", "f(Rome)", "[]", "[1]"})
    BOOST_TEST(text_of(plain) == expected(plain));
  BOOST_TEST(census.num_plain_calls == 4);
  BOOST_TEST(census.num_hidden_contents == 0);
  BOOST_TEST(text_of("<think>hm</think>" + call) == expected(call));
  BOOST_TEST(census.num_hidden_contents == 1);
  write_config(
      "{%- for message in messages %}{%- for call in message.tool_calls %}{{- call.id }}{%- endfor %}{%- endfor %}");
  BOOST_TEST(
      rendered(
          R"({"conversations": [{"from": "function_call", "value": "{\"id\": \"c1\", \"name\": \"f\", \"arguments\": {}}"}]})") ==
      "c1");
  write_config("{%- for message in messages %}{{- message.content }}{%- endfor %}");
  BOOST_TEST(mentions(
      refusal(R"({"conversations": [{"from": "function_call", "value": "{\"name\": \"f\", \"arguments\": {}}"}]})"),
      "a turn calls a tool, and the chat template has no form for it"));
}

BOOST_AUTO_TEST_CASE(turns_that_the_template_leaves_out_are_refused) {
  write_config(shows_calls);
  BOOST_TEST(mentions(refusal(R"({"messages": [)" + user + R"(, {"role": "Assistant", "content": "Yo"}]})"),
                      "the chat template leaves message 2 out, whose role is 'Assistant'; --rename "
                      "messages=conversations takes the role for that of 'assistant'"));
  const ExampleOptions renaming = {.rename_fields = {{"messages", "conversations"}}};
  BOOST_TEST(mentions(rendered(R"({"messages": [)" + user + R"(, {"role": "Assistant", "content": "Yo"}]})", renaming),
                      "<|im_start|>assistant\nYo"));
  BOOST_TEST(mentions(refusal(R"({"messages": [)" + user + R"(, {"role": "narrator", "content": "Yo"}]})"),
                      "whose role is 'narrator'; --chat_template_path gives one that shows it"));
  for (const std::string blank : {"\" \"", R"([{"type": "text", "text": ""}])"}) {
    BOOST_TEST(refusal(R"({"messages": [)" + user + R"(, {"role": "Assistant", "content": )" + blank + "}]}") == "");
  }
  write_config(
      "{%- for message in messages %}{%- if message.tool_calls and message.content is none %}"
      "{{- message.tool_calls }}{%- else %}{{- message.content }}{%- endif %}{%- endfor %}");
  BOOST_TEST(
      mentions(refusal(R"({"messages": [{"role": "assistant", "content": "Yo", "tool_calls": [{"name": "f"}]}]})"),
               "the chat template leaves the 'tool_calls' of message 1 out; --ignore_fields tool_calls"));
}

BOOST_AUTO_TEST_CASE(a_weight_reaches_the_turn_that_is_written_outside_of_the_loop) {
  write_config(shows_calls);
  BOOST_TEST(
      rendered(R"({"mask": "User", "system": "S", "conversations": [{"from": "User", "value": "Hi"},
                          {"from": "Assistant", "value": "Yo"}]})") ==
      "[<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n]<|im_start|>assistant\nYo<|im_end|>\n");
}

BOOST_AUTO_TEST_CASE(alpaca_becomes_a_prompt_and_a_completion) {
  BOOST_TEST(rendered(R"({"instruction": "Add.", "input": "1 2", "output": "3", "id": 4})") ==
             "[<|im_start|>user\nAdd.\n1 2<|im_end|>\n<|im_start|>assistant\n]3<|im_end|>\n");
  BOOST_TEST(rendered(R"({"instruction": "Add.", "input": "", "output": "3", "history": [["a", "b"]]})") ==
             "[<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nb<|im_end|>\n<|im_start|>user\nAdd.<|im_end|>\n"
             "<|im_start|>assistant\n]3<|im_end|>\n");
  BOOST_TEST((census.ignored_fields.by_name() == std::map<std::string, std::int64_t>{{"id", 1}}));
}

BOOST_AUTO_TEST_CASE(contents_may_be_parts_of_text) {
  BOOST_TEST(rendered(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": "a"}, "b"]}]})") ==
             "<|im_start|>user\nab<|im_end|>\n");
  BOOST_TEST(mentions(refusal(R"({"messages": [{"role": "user", "content": [{"type": "image"}]}]})"), "\"image\""));
  BOOST_TEST(rendered(R"({"messages": [{"role": "user", "content": null}]})") == "<|im_start|>user\n<|im_end|>\n");
}

/// A template that writes a header, what `content` makes of message.content, and an end.
std::string template_with(const std::string& content) {
  return "{%- for message in messages %}{{- '<|im_start|>' + message.role + '\\n' }}" + content +
         "{{- '<|im_end|>\\n' }}{%- endfor %}"
         "{%- if add_generation_prompt %}{{- '<|im_start|>assistant\\n' }}{%- endif %}";
}

const std::string trims_parts =
    "{%- if message.content is string %}{{- message.content }}{%- else %}"
    "{%- for part in message.content %}{%- if part.type == 'text' %}{{- part.text | trim }}{%- endif %}{%- endfor %}"
    "{%- endif %}";
const std::string parted_user =
    R"({"role": "user", "content": [{"type": "text", "text": " a "}, {"type": "text", "text": "b "}]})";
const std::string parted_assistant =
    R"({"role": "assistant", "content": [{"type": "text", "text": "c "}, {"type": "text", "text": " d"}]})";

BOOST_AUTO_TEST_CASE(a_template_that_reads_lists_of_parts_is_given_them) {
  write_config(template_with(trims_parts));
  const std::string chat = R"({"messages": [)" + parted_user + ", " + parted_assistant + "]}";
  BOOST_TEST(rendered(chat) == "<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\ncd<|im_end|>\n");
  BOOST_TEST(rendered(chat, assistant_only) ==
             "[<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n]cd<|im_end|>\n");
  BOOST_TEST(rendered(R"({"prompt": [)" + parted_user + R"(], "completion": [)" + parted_assistant + "]}") ==
             "[<|im_start|>user\nab<|im_end|>\n<|im_start|>assistant\n]cd<|im_end|>\n");
  const std::string weighted = R"({"weight": 0, )" + parted_user.substr(1);
  BOOST_TEST(rendered(R"({"messages": [)" + weighted + ", " + parted_assistant + "]}") ==
             "[<|im_start|>user\nab<|im_end|>\n]<|im_start|>assistant\ncd<|im_end|>\n");
  // What no template reads is one text.
  BOOST_TEST(rendered(R"({"messages": [{"role": "user", "content": [{"type": "text", "text": " a "}, " b "]}]})") ==
             "<|im_start|>user\n a  b <|im_end|>\n");
  // A template that needs a list, as those of models that see do.
  write_config(template_with("{%- for part in message.content %}{{- part.text }}{%- endfor %}"));
  BOOST_TEST(rendered(R"({"messages": [)" + parted_user + "]}") == "<|im_start|>user\n a b <|im_end|>\n");
}

BOOST_AUTO_TEST_CASE(a_template_that_cannot_read_a_list_is_given_one_text) {
  for (
      const char* content :
      {"{{- message.content }}", "{{- message.content | trim }}", "{{- message.content | tojson | replace('\"', '') }}",
       "{{- '' + message.content }}", "{%- if message.content is string %}{{- message.content }}{%- endif %}",
       "{%- if message.content is string %}{{- message.content }}{%- else %}{{- message.content[0].text }}{%- endif %}",
       "{%- if message.content is not string %}{{- raise_exception('a text') }}{%- endif %}{{- message.content }}"}) {
    write_config(template_with(content));
    const std::string text = rendered(R"({"messages": [)" + parted_assistant + "]}", assistant_only);
    BOOST_TEST(text == "[<|im_start|>assistant\n]c  d<|im_end|>\n", content);
  }
}

BOOST_AUTO_TEST_CASE(lists_of_one_role_may_be_read_and_those_of_another_not) {
  write_config(template_with("{%- if message.role == 'user' %}{{- message.content }}{%- else %}" + trims_parts +
                             "{%- endif %}"));
  BOOST_TEST(rendered(R"({"messages": [)" + parted_user + ", " + parted_assistant + "]}", assistant_only) ==
             "[<|im_start|>user\n a b <|im_end|>\n<|im_start|>assistant\n]cd<|im_end|>\n");
  // A part that the template leaves out of a text as well is no reason.
  write_config(
      template_with("{%- set content = message.content if message.content is string else "
                    "message.content | map(attribute='text') | map('trim') | join %}"
                    "{{- content.split('</think>')[-1] }}"));
  BOOST_TEST(rendered(R"({"messages": [{"role": "assistant", "content": [{"type": "text", "text": "hm</think> x "},
                          {"type": "text", "text": " y"}]}]})") == "<|im_start|>assistant\n xy<|im_end|>\n");
}

BOOST_AUTO_TEST_CASE(fields_may_be_dropped_knowingly) {
  const std::string thought = R"({"role": "assistant", "content": "A", "reasoning_content": "hm", "name": null})";
  const std::string record = R"({"messages": [)" + user + ", " + thought + R"(], "tools": [{"name": "f"}]})";
  BOOST_TEST(mentions(refusal(record), "--ignore_fields reasoning_content leaves it out"));
  const ExampleOptions dropping = {.ignore_fields = {"reasoning_content", "tools", "name", "prompt"}};
  BOOST_TEST(rendered(record, dropping) == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n");
  const std::map<std::string, std::int64_t> expected = {{"messages[].reasoning_content", 1}, {"tools", 1}};
  BOOST_TEST((census.dropped_fields.by_name() == expected));
  BOOST_TEST(census.ignored_fields.by_name().empty());
  // Also what would make a record ambiguous
  const std::string two = R"({"messages": [)" + user + R"(], "prompt": "p"})";
  BOOST_TEST(mentions(refusal(two), "only one of them can be meant"));
  BOOST_TEST(rendered(two, dropping) == "<|im_start|>user\nHi<|im_end|>\n");
}

BOOST_AUTO_TEST_CASE(columns_are_all_that_is_read) {
  const std::string record = R"({"messages": [)" + user + R"(], "prompt": "p", "tools": [{"name": "f"}], "id": null})";
  BOOST_TEST(rendered(record, {.columns = {"messages", "id"}}) == "<|im_start|>user\nHi<|im_end|>\n");
  const std::map<std::string, std::int64_t> expected = {{"prompt", 1}, {"tools", 1}};
  BOOST_TEST((census.dropped_fields.by_name() == expected));
}

BOOST_AUTO_TEST_CASE(fields_may_have_other_names) {
  const std::string record = R"({"question": "2 + 2?", "answer": "4", "level": 1})";
  BOOST_TEST(mentions(refusal(record), "give --rename question=prompt,answer=completion"));
  const ExampleOptions renaming = {.rename_fields = {{"question", "prompt"}, {"answer", "completion"}}};
  BOOST_TEST(rendered(record, renaming) == rendered(R"({"prompt": "2 + 2?", "completion": "4"})"));
  BOOST_TEST(mentions(refusal(R"({"prompt": "2 + 2?", "response": "4"})"), "give --rename response=completion"));
  BOOST_TEST(mentions(refusal(R"({"prompt": "2", "question": "3", "answer": "4"})", renaming),
                      "it has 'question', which --rename calls 'prompt', and a 'prompt' of its own"));
  BOOST_TEST(mentions(refusal(R"({"prompt": "2 + 2?", "chosen": "4", "rejected": "5"})"),
                      "a record of preferences ('chosen' and 'rejected')"));
  BOOST_TEST(mentions(refusal(R"({"chosen": [], "rejected": []})"), "--rename chosen=messages"));
  BOOST_TEST(mentions(refusal(R"({"dialog": [{"role": "user", "content": "x"}]})"), "give --rename dialog=messages"));
  BOOST_TEST(mentions(refusal(R"({"content": "plain"})"), "give --dataset_text_field content"));
}

BOOST_AUTO_TEST_CASE(what_the_template_does_not_show_is_refused_or_counted) {
  const auto with = [](const std::string& field) {
    return R"({"messages": [{"role": "assistant", "content": "A", )" + field + "}]}";
  };
  BOOST_TEST(rendered(with(R"("tool_calls": [{"name": "f"}])")) == "<|im_start|>assistant\nA[f]<|im_end|>\n");
  BOOST_TEST(mentions(refusal(with(R"("reasoning_content": "hm")")), "does not show it"));
  BOOST_TEST(refusal(with(R"("reasoning_content": "")")) == "");
  BOOST_TEST(refusal(with(R"("origin": "Al")")) == "");
  BOOST_TEST(census.ignored_fields.by_name().at("messages[].origin") == 1);

  const std::string messages = R"({"messages": [)" + user + "], ";
  BOOST_TEST(mentions(rendered(messages + R"("tools": [{"name": "f"}]})"), R"([{"name": "f"}])"));
  BOOST_TEST(mentions(rendered(messages + R"("tools": "[{\"name\": \"f\"}]"})"), R"([{"name": "f"}])"));
  BOOST_TEST(mentions(refusal(messages + R"("tools": "[{"})"), "not JSON"));
  BOOST_TEST(refusal(messages + R"("tools": null})") == "");
  BOOST_TEST(mentions(refusal(R"({"prompt": "a", "completion": "b", "tools": [1]})"), "only conversations show tools"));
  BOOST_TEST(mentions(refusal(messages + R"("images": ["a.png"]})"), "pictures"));
  BOOST_TEST(mentions(refusal(messages + R"("videos": ["a.mp4"]})"), "films"));
  BOOST_TEST(mentions(refusal(R"({"text": "T", "audio": {"path": "a.wav"}})"), "sound"));
  BOOST_TEST(
      mentions(refusal(R"({"q": "1", "output": "2", "image": "a.png"})", {.prompt_template = "{{ q }}"}), "pictures"));
  BOOST_TEST(refusal(messages + R"("videos": [], "audios": null})") == "");
  write_config("{%- for message in messages %}{{- message.content }}{%- endfor %}");
  BOOST_TEST(mentions(refusal(messages + R"("tools": [{"name": "f"}]})"), "does not show them"));
}

BOOST_AUTO_TEST_CASE(records_may_set_variables_of_the_template) {
  const std::string messages = R"({"messages": [)" + user + R"(], "chat_template_kwargs": )";
  BOOST_TEST(rendered(messages + R"({"loud": true, "unknown": 1}})") == "<|im_start|>user\nHi<|im_end|>\n!");
  BOOST_TEST(census.ignored_fields.by_name().at("chat_template_kwargs.unknown") == 1);
  BOOST_TEST(rendered(messages + "null}") == "<|im_start|>user\nHi<|im_end|>\n");
  BOOST_TEST(mentions(refusal(messages + R"({"chat_template": "x"}})"), "chat_template"));
  BOOST_TEST(mentions(refusal(messages + R"({"messages": [)" + user + ", " + user + "]}}"), "names messages"));
}

BOOST_AUTO_TEST_CASE(what_a_template_raises_is_the_reason) {
  write_config("{{- raise_exception('no system messages') }}");
  BOOST_TEST(mentions(refusal(R"({"messages": [)" + user + "]}"), "no system messages"));
}

BOOST_AUTO_TEST_CASE(templates_come_from_an_option_a_file_or_the_configuration) {
  const std::string record = R"({"messages": [)" + user + "]}";
  const std::string with_tools = R"({"messages": [)" + user + R"(], "tools": [{"name": "f"}]})";
  const std::string content = "{{ messages[0].content }}";
  const auto write = [&](const std::string& file, const std::string& text) {
    sft::io::write_file_atomically(folder.file(file), text + content);
  };
  write_config(nlohmann::json::array({{{"name", "default"}, {"template", "named " + content}},
                                      {{"name", "tool_use"}, {"template", "{{ tools | length }} " + content}}}));
  BOOST_TEST(rendered(record) == "named Hi");
  BOOST_TEST(rendered(with_tools) == "1 Hi");
  BOOST_TEST(rendered(R"({"messages": [)" + user + R"(], "tools": []})") == "0 Hi");
  write("chat_template.jinja", "{{ (tools or []) | length }} of the folder ");
  BOOST_TEST(rendered(record) == "0 of the folder Hi");
  BOOST_TEST(rendered(with_tools) == "1 of the folder Hi");
  std::filesystem::create_directory(folder.file("additional_chat_templates"));
  write("additional_chat_templates/tool_use.jinja", "{{ tools | length }} beside it ");
  write("additional_chat_templates/rag.jinja", "{{ documents }}");
  BOOST_TEST(rendered(record) == "0 of the folder Hi");
  BOOST_TEST(rendered(with_tools) == "1 beside it Hi");
  std::filesystem::remove(folder.file("chat_template.jinja"));
  BOOST_TEST(rendered(with_tools) == "1 beside it Hi");
  BOOST_CHECK_EXCEPTION((void)rendered(record), sft::Error, [](const sft::Error& error) {
    return mentions(error.what(), "its templates are rag, tool_use, and none is named default");
  });
  write("other.jinja", "of the option ");
  options.chat_template_path = folder.file("other.jinja");
  BOOST_TEST(rendered(record) == "of the option Hi");
  sft::io::write_file_atomically(folder.file("other.jinja"), "\n{% if %}");
  BOOST_CHECK_EXCEPTION((void)rendered(record), sft::Error,
                        [](const sft::Error& error) { return mentions(error.what(), "other.jinja"); });
}

BOOST_AUTO_TEST_CASE(without_a_template_conversations_are_refused_and_texts_are_not) {
  write_config(nullptr);
  BOOST_TEST(rendered(R"({"text": "Hi"})") == "Hi<|im_end|>");
  BOOST_CHECK_EXCEPTION((void)rendered(R"({"messages": [)" + user + "]}"), sft::Error,
                        [](const sft::Error& error) { return mentions(error.what(), "--chat_template_path"); });
}

BOOST_AUTO_TEST_CASE(token_ids_are_taken_as_they_are) {
  const auto weights = [&](const std::string& more, const ExampleOptions& example = {}) {
    return document_of(R"({"input_ids": [1, 5, 6, 2])" + more + "}", example).loss_weight;
  };
  using Weights = std::vector<float>;
  const ExampleOptions completion_only = {.completion_only_loss = true};
  BOOST_TEST(
      (document_of(R"({"input_ids": [1, 5, 6, 2], "text": "T"})").tokens == std::vector<std::int32_t>{1, 5, 6, 2}));
  BOOST_TEST(weights("") == (Weights{1, 1, 1, 1}));
  BOOST_TEST(weights(R"(, "labels": [-100, -100, 6, 2], "assistant_masks": [1])") == (Weights{0, 0, 1, 1}));
  BOOST_TEST(weights(R"(, "assistant_masks": [0, 1, 1, 0])") == (Weights{0, 1, 1, 0}));
  BOOST_TEST(weights(R"(, "assistant_masks": [false, true, true, false])") == (Weights{0, 1, 1, 0}));
  BOOST_TEST(weights(R"(, "completion_mask": [0, 0, 1, 1])") == (Weights{1, 1, 1, 1}));
  BOOST_TEST(census.num_ignored_masks == 1);
  BOOST_TEST(weights(R"(, "completion_mask": [0, 0, 1, 1], "assistant_masks": [0, 1, 1, 0])", completion_only) ==
             (Weights{0, 0, 1, 0}));
  BOOST_TEST(mentions(refusal(R"({"input_ids": [1, 999999]})"), "outside the vocabulary"));
  BOOST_TEST(mentions(refusal(R"({"input_ids": [1, -1]})"), "outside the vocabulary"));
  BOOST_TEST(mentions(refusal(R"({"input_ids": [1, 2.5]})"), "not an integer"));
  BOOST_TEST(mentions(refusal(R"({"input_ids": [1, 2], "labels": [1]})"), "there are 2 tokens"));
  BOOST_TEST(mentions(refusal(R"({"input_ids": [1, 2], "labels": [1, 3]})"), "neither its token nor -100"));
  BOOST_TEST(mentions(refusal(R"({"input_ids": [1, 2], "assistant_masks": [1, 2]})"), "other numbers than 0 and 1"));
}

BOOST_AUTO_TEST_CASE(the_vocabulary_is_that_of_the_model) {
  BOOST_TEST(ExampleMaker(options, {}).vocab_size() == num_ordinary_tokens + 2);
  sft::io::write_file_atomically(folder.file("config.json"), R"({"vocab_size": 400})");
  BOOST_TEST(ExampleMaker(options, {}).vocab_size() == 400);
  sft::io::write_file_atomically(folder.file("config.json"), R"({"text_config": {"vocab_size": 300}})");
  BOOST_TEST(ExampleMaker(options, {}).vocab_size() == 300);
  BOOST_CHECK_EXCEPTION((void)rendered(R"({"text": "Hi"})"), sft::Error, [](const sft::Error& error) {
    return mentions(error.what(), "it makes the token 331, '<|im_end|>', and the vocab_size of config.json is 300");
  });
}

BOOST_AUTO_TEST_CASE(turns_that_end_with_a_token) {
  const std::string record =
      R"({"messages": [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yo "},
                       {"role": "user", "content": "And"}, {"role": "assistant", "content": "No"}]})";
  const std::string of_trl = rendered(record, {.assistant_only_loss = true});
  BOOST_TEST(of_trl.find("assistant\n]Yo <|im_end|>\n[") != std::string::npos, of_trl);
  const std::string of_token = rendered(record, {.assistant_only_loss = true, .end_of_turn = {"eos"}});
  BOOST_TEST(of_token.find("assistant\n]Yo <|im_end|>[\n") != std::string::npos, of_token);
  BOOST_TEST(of_token.ends_with("assistant\n]No<|im_end|>[\n]"), of_token);
  const std::string of_other = rendered(record, {.assistant_only_loss = true, .end_of_turn = {"<|im_start|>"}});
  BOOST_TEST(of_other.find("assistant\n]Yo [<|im_end|>\n]<|im_start|>[") != std::string::npos, of_other);
}

BOOST_AUTO_TEST_CASE(turns_that_call_tools) {
  const std::string record =
      R"({"messages": [{"role": "user", "content": "Hi"},
                       {"role": "assistant", "content": "", "tool_calls": [{"name": "f"}]}]})";
  const std::string all = rendered(record, {.assistant_only_loss = true, .end_of_turn = {"eos"}});
  BOOST_TEST(all.ends_with("assistant\n][f]<|im_end|>[\n]"), all);
}

BOOST_AUTO_TEST_CASE(prompts_by_a_template) {
  const ExampleOptions example{.prompt_template = "{{ 'Q: ' ~ q ~ (' ' ~ input if input else '') ~ '\\n' }}"};
  BOOST_TEST(rendered(R"({"q": "one", "input": "two", "output": "three", "id": 4})", example) ==
             "[Q: one two\n]three<|im_end|>");
  BOOST_TEST(census.ignored_fields.by_name().at("id") == 1);
  BOOST_TEST(rendered(R"({"q": 5, "output": "six"})", example) == "[Q: 5\n]six<|im_end|>");
  BOOST_TEST(census.shapes.by_name().at("prompt template") == 2);
  BOOST_CHECK_THROW(static_cast<void>(document_of(R"({"q": 5, "output": 6})", example)), std::invalid_argument);
}

BOOST_AUTO_TEST_CASE(records_that_a_prompt_template_cannot_write) {
  const ExampleOptions example{.prompt_template = "{{ 'Q: ' ~ question }}"};
  const std::string chat = refusal(R"({"messages": [)" + user + ", " + assistant + "]}", example);
  BOOST_TEST(mentions(chat, "it has 'messages', and the prompt template needs an 'output'"), chat);
  const std::string pair = R"({"question": "one", "answer": "two"})";
  BOOST_TEST(mentions(refusal(pair, example), "which the prompt template needs: give --rename answer=output"));
  BOOST_TEST(rendered(pair, {.prompt_template = example.prompt_template, .rename_fields = {{"answer", "output"}}}) ==
             "[Q: one]two<|im_end|>");
  BOOST_TEST(mentions(refusal(R"({"prompt": "one", "completion": "two"})", example), "--rename completion=output"));
  BOOST_TEST(mentions(refusal(R"({"text": "one"})", example), "it has no 'output', which the prompt template needs"));
  const std::string missing = refusal(R"({"query": "one", "output": "two"})", example);
  BOOST_TEST(mentions(missing, "the prompt template refuses it: the template fails at line 1 ('question' is undefined"),
             missing);
  BOOST_TEST(mentions(refusal(R"({"question": null, "output": "two"})", example), "null"));
  BOOST_TEST(mentions(refusal(R"({"question": "one", "output": "two"})",
                              {.assistant_only_loss = true, .prompt_template = example.prompt_template}),
                      "assistant_only_loss needs messages with roles"));
  BOOST_CHECK_EXCEPTION(ExampleMaker(options, {.prompt_template = "{{ 'Q: ' ~ }}"}), sft::Error,
                        [](const sft::Error& error) {
                          return error.status() == sft::ExitStatus::configuration &&
                                 mentions(error.what(), "cannot use the prompt template (the template fails at line 1");
                        });
}

BOOST_AUTO_TEST_SUITE_END()
