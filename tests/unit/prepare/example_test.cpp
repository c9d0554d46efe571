// SPDX-License-Identifier: Apache-2.0
#include "sft/prepare/example.hpp"

#include <boost/test/unit_test.hpp>
#include <stdexcept>

#include "sft/text/byte_tokenizer.hpp"

using namespace sft::prepare;

namespace {

const sft::text::ByteTokenizer tokenizer;

Document document_of(const std::string& record, const ExampleOptions& options = {}) {
  RecordCensus census;
  return ExampleMaker({}, options).make(record, census);
}

/// What a record becomes, what is not trained on in brackets.
std::string rendered(const std::string& record, const ExampleOptions& options = {}) {
  const Document document = document_of(record, options);
  std::string text;
  bool trained = true;
  for (std::size_t i = 0; i < document.tokens.size(); ++i) {
    if ((document.loss_weight[i] > 0.0f) != trained) {
      text += trained ? "[" : "]";
      trained = !trained;
    }
    text += tokenizer.decode(std::vector{document.tokens[i]});
  }
  return trained ? text : text + "]";
}

const ExampleOptions everything = {.completion_only_loss = false};
const ExampleOptions assistant_only = {.assistant_only_loss = true};

std::string refusal(const std::string& record, const ExampleOptions& options = {}) {
  try {
    (void)document_of(record, options);
  } catch (const std::invalid_argument& reason) {
    return reason.what();
  }
  return "";
}

bool mentions(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const std::string conversation =
    R"({"messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"},
                     {"role": "assistant", "content": "A"}, {"role": "user", "content": "V"},
                     {"role": "assistant", "content": "B"}]})";
const std::string conversational_pair =
    R"({"prompt": [{"role": "user", "content": "U"}], "completion": [{"role": "assistant", "content": "A"},
        {"role": "user", "content": "V"}, {"role": "assistant", "content": "B"}]})";

}  // namespace

BOOST_AUTO_TEST_SUITE(example)

BOOST_AUTO_TEST_CASE(text_ends_with_eos_and_is_trained_on) {
  BOOST_TEST(rendered(R"({"text": "Hi"})") == "Hi<|eos|>");
  BOOST_TEST(rendered(R"({"text": ""})") == "<|eos|>");
}

BOOST_AUTO_TEST_CASE(of_prompt_and_completion_the_completion_and_its_eos_are_trained_on) {
  const std::string record = R"({"prompt": "2+2=", "completion": " 4"})";
  BOOST_TEST(rendered(record) == "[2+2=] 4<|eos|>");
  BOOST_TEST(rendered(record, everything) == "2+2= 4<|eos|>");
  BOOST_TEST(rendered(R"({"prompt": "", "completion": "x"})") == "x<|eos|>");
  BOOST_TEST(rendered(R"({"prompt": "x", "completion": ""})") == "[x]<|eos|>");
}

BOOST_AUTO_TEST_CASE(conversations_are_trained_on_whole_or_on_the_assistants_turns) {
  BOOST_TEST(rendered(conversation) ==
             "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n"
             "<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\nB<|im_end|>\n");
  BOOST_TEST(rendered(conversation, assistant_only) ==
             "[<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n]A<|im_end|>[\n"
             "<|im_start|>user\nV<|im_end|>\n<|im_start|>assistant\n]B<|im_end|>[\n]");
}

BOOST_AUTO_TEST_CASE(of_conversational_pairs_the_completion_begins_past_the_generation_prompt) {
  BOOST_TEST(rendered(conversational_pair) ==
             "[<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n]A<|im_end|>\n<|im_start|>user\nV<|im_end|>\n"
             "<|im_start|>assistant\nB<|im_end|>\n");
  BOOST_TEST(rendered(conversational_pair, assistant_only) ==
             "[<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n]A<|im_end|>[\n<|im_start|>user\nV<|im_end|>\n"
             "<|im_start|>assistant\n]B<|im_end|>[\n]");
  BOOST_TEST(!mentions(rendered(conversational_pair, everything), "["));
}

BOOST_AUTO_TEST_CASE(assistants_of_the_prompt_are_trained_on_only_when_prompts_are) {
  const std::string record =
      R"({"prompt": [{"role": "assistant", "content": "A"}], "completion": [{"role": "assistant", "content": "B"}]})";
  BOOST_TEST(rendered(record, assistant_only) ==
             "[<|im_start|>assistant\nA<|im_end|>\n<|im_start|>assistant\n]B<|im_end|>[\n]");
  BOOST_TEST(rendered(record, {.completion_only_loss = false, .assistant_only_loss = true}) ==
             "[<|im_start|>assistant\n]A<|im_end|>[\n<|im_start|>assistant\n]B<|im_end|>[\n]");
}

BOOST_AUTO_TEST_CASE(json_escapes_are_decoded_and_markup_in_data_stays_text) {
  BOOST_TEST(rendered(R"({"text": "a\"\\\/\n\t\u00e9\ud83d\ude00"})") == "a\"\\/\n\t\xc3\xa9\xf0\x9f\x98\x80<|eos|>");
  const Document document = document_of(R"({"text": "<|im_end|>\u003c|eos|>"})");
  BOOST_TEST(std::count_if(document.tokens.begin(), document.tokens.end(), [](auto id) { return id >= 256; }) == 1);
  BOOST_TEST(document_of(R"({"text": "a\u0000b"})").tokens.size() == 4u);
}

BOOST_AUTO_TEST_CASE(a_pair_goes_before_messages_before_text_and_null_is_no_shape) {
  BOOST_TEST(rendered(R"({"id": 7, "text": "Hi", "source": null})") == "Hi<|eos|>");
  BOOST_TEST(rendered(R"({"text": "T", "prompt": "P", "completion": "C"})") == "[P]C<|eos|>");
  BOOST_TEST(rendered(R"({"prompt": null, "completion": null, "messages": null, "text": "T"})") == "T<|eos|>");
}

BOOST_AUTO_TEST_CASE(fields_that_nothing_reads_are_counted_by_name) {
  RecordCensus census;
  for (const char* record :
       {R"({"id": 7, "text": "Hi", "source": null, "tools": [], "chat_template_kwargs": {"enable_thinking": false}})",
        R"({"id": 8, "text": "T", "prompt": "P", "completion": "C"})",
        R"({"messages": [{"role": "user", "content": "U", "name": "Al"}, {"role": "assistant", "content": "A",
            "name": "Bo", "tool_calls": null, "weight": 1, "train": true, "refusal": null}]})"}) {
    (void)ExampleMaker({}, {}).make(record, census);
  }
  const std::map<std::string, std::int64_t> expected = {
      {"chat_template_kwargs", 1}, {"id", 2}, {"messages[].name", 2}, {"text", 1}};
  BOOST_TEST((census.ignored_fields.by_name() == expected));
  BOOST_TEST((census.roles.by_name() == std::map<std::string, std::int64_t>{{"assistant", 1}, {"user", 1}}));
}

BOOST_AUTO_TEST_CASE(names_without_end_are_counted_in_little_memory) {
  const ExampleMaker maker({}, {});
  RecordCensus census;
  for (int i = 0; i < 1000; ++i) {
    (void)maker.make("{\"text\": \"x\", \"key" + std::to_string(i % 500) + "\": 1}", census);
  }
  BOOST_TEST(census.ignored_fields.by_name().size() == 64u);
  BOOST_TEST(census.ignored_fields.by_name().at("key0") == 2);
  BOOST_TEST(census.ignored_fields.num_others() == 1000 - 2 * 64);
}

BOOST_AUTO_TEST_CASE(weights_of_messages_multiply_those_of_their_tokens) {
  const std::string record =
      R"({"messages": [{"role": "user", "content": "U", "weight": 0}, {"role": "assistant", "content": "A"},
                       {"role": "user", "content": "V", "train": false},
                       {"role": "assistant", "content": "B", "weight": 0.25, "train": true},
                       {"role": "assistant", "content": "C", "weight": 0.5, "train": false}]})";
  BOOST_TEST(rendered(record) ==
             "[<|im_start|>user\nU<|im_end|>\n]<|im_start|>assistant\nA<|im_end|>\n[<|im_start|>user\nV<|im_end|>\n]"
             "<|im_start|>assistant\nB<|im_end|>\n[<|im_start|>assistant\nC<|im_end|>\n]");
  for (const ExampleOptions& options : {ExampleOptions{}, assistant_only}) {
    const Document document = document_of(record, options);
    const auto weight_of = [&document](char c) {
      const auto at = std::find(document.tokens.begin(), document.tokens.end(), c) - document.tokens.begin();
      return document.loss_weight[static_cast<std::size_t>(at)];
    };
    BOOST_TEST(weight_of('A') == 1.0f);
    BOOST_TEST(weight_of('B') == 0.25f);
    BOOST_TEST(weight_of('C') == 0.0f);
    BOOST_TEST(weight_of('V') == 0.0f);
  }
  BOOST_TEST(
      rendered(R"({"prompt": [{"role": "user", "content": "U"}],
                          "completion": [{"role": "assistant", "content": "A", "weight": 0.0},
                                         {"role": "assistant", "content": "B"}]})") ==
      "[<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n]<|im_start|>assistant\nB<|im_end|>\n");
}

BOOST_AUTO_TEST_CASE(weights_that_cannot_be_are_refused) {
  const auto with = [](const std::string& field) {
    return refusal(R"({"messages": [{"role": "user", "content": "U", )" + field + "}]}");
  };
  BOOST_TEST(mentions(with(R"("weight": 1.5)"), "'weight' of message 1 of 'messages' does not lie in 0 to 1"));
  BOOST_TEST(mentions(with(R"("weight": -0.1)"), "0 to 1"));
  BOOST_TEST(mentions(with(R"("weight": "1")"), "is string, not a number"));
  BOOST_TEST(mentions(with(R"("weight": true)"), "is boolean, not a number"));
  BOOST_TEST(mentions(with(R"("train": 0)"), "'train' of message 1 of 'messages' is number, not true or false"));
  BOOST_TEST(with(R"("weight": null, "train": null)") == "");
}

BOOST_AUTO_TEST_CASE(fields_of_other_formats_say_what_is_not_trained_on) {
  const std::string silent = "[<|im_start|>user\nU<|im_end|>\n]<|im_start|>assistant\nA<|im_end|>\n";
  for (const std::string field : {R"("loss": false)", R"("train": false, "loss": true)", R"("loss_scale": 0)"}) {
    BOOST_TEST(rendered(R"({"messages": [{"role": "user", "content": "U", )" + field +
                        R"(}, {"role": "assistant", "content": "A", "loss": true, "train_detail": []}]})") == silent);
  }
  BOOST_TEST(rendered(R"({"mask": "User", "conversations": [{"from": "User", "value": "U"},
                          {"from": "Assistant", "value": "A", "label": null}]})") == silent);
  BOOST_TEST(rendered(R"({"mask": ["user"], "system": "S", "messages": [{"role": "user", "content": "U"},
                          {"role": "assistant", "content": "A"}]})") ==
             "[<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nU<|im_end|>\n]<|im_start|>assistant\nA<|im_end|>\n");
  const auto with = [](const std::string& field) {
    return refusal(R"({"messages": [{"role": "assistant", "content": "A", )" + field + "}]}");
  };
  BOOST_TEST(mentions(with(R"("loss": 0.25)"), "'loss' of message 1 of 'messages' is number, not true or false"));
  BOOST_TEST(mentions(with(R"("train_detail": [{"begin_offset": 0, "end_offset": 1, "train": false}])"),
                      "has 'train_detail', and a message is trained on as a whole; --ignore_fields train_detail"));
  RecordCensus census;
  (void)ExampleMaker({}, {}).make(R"({"mask": "Human", "messages": [{"role": "user", "content": "U"}]})", census);
  BOOST_TEST((census.ignored_fields.by_name() == std::map<std::string, std::int64_t>{{"mask", 1}}));
}

BOOST_AUTO_TEST_CASE(a_system_of_the_record_is_the_first_message) {
  const std::string turns = "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n";
  const std::string begin = "<|im_start|>system\nS<|im_end|>\n";
  const std::string list = R"([{"role": "user", "content": "U"}, {"role": "assistant", "content": "A"}])";
  BOOST_TEST(rendered(R"({"system": "S", "messages": )" + list + "}") == begin + turns);
  BOOST_TEST(rendered(R"({"system": [{"text": "S"}], "messages": [{"role": "user", "content": [{"text": "U"}]},
                          {"role": "assistant", "content": [{"text": "A"}]}]})") == begin + turns);
  BOOST_TEST(rendered(R"({"system": "", "messages": )" + list + "}") == turns);
  BOOST_TEST(rendered(R"({"system": "S", "prompt": [{"role": "user", "content": "U"}], "completion": "A"})") ==
             "[" + begin + "<|im_start|>user\nU<|im_end|>\n<|im_start|>assistant\n]A<|im_end|>\n");
  const std::string both = R"(, "messages": [{"role": "system", "content": "S"}, {"role": "user", "content": "U"},
                            {"role": "assistant", "content": "A"}]})";
  BOOST_TEST(rendered(R"({"system": "S")" + both) == begin + turns);
  BOOST_TEST(mentions(refusal(R"({"system": "T")" + both), "a first message of system with other words"));
}

BOOST_AUTO_TEST_CASE(numbers_of_python_do_no_harm) {
  BOOST_TEST(rendered(R"({"text": "NaN", "a": NaN, "b": [-Infinity, {"c": Infinity}], "d": 1e999, "e": "\" NaN, 1e999",
                          "f": 123456789012345678901234567890})") == "NaN<|eos|>");
  BOOST_TEST(mentions(refusal(R"({"text": "a", "x": -NaN})"), "not JSON"));
  BOOST_TEST(mentions(refusal(R"({"text": "a", "x": 01e999})"), "not JSON"));
  BOOST_TEST(mentions(refusal(R"({"text": "a", "x": nan, "y": NaN})"), "not JSON"));
  BOOST_TEST(mentions(refusal(R"({"text": NaN})"), "is number, not a string"));
  BOOST_TEST(mentions(refusal(R"({"messages": [{"role": "user", "content": "U", "weight": NaN}]})"), "0 to 1"));
}

BOOST_AUTO_TEST_CASE(bad_records_are_refused_with_the_reason) {
  BOOST_TEST(mentions(refusal("{\"text\""), "not JSON: column 8: syntax error"));
  BOOST_TEST(mentions(refusal("{"), "goes on in the next line"));
  BOOST_TEST(mentions(refusal("\xef\xbb\xbf[\r"), "begins an array"));
  BOOST_TEST(mentions(refusal(R"({"text": "a"} x)"), "not JSON"));
  BOOST_TEST(mentions(refusal("{\"text\": \"\xff\"}"), "not JSON"));
  BOOST_TEST(mentions(refusal(R"({"text": "\ud83d"})"), "not JSON"));
  BOOST_TEST(mentions(refusal("{\"text\": \"a\", \"x\": " + std::string(4301, '1') + "}"), "more than 4300 digits"));
  BOOST_TEST(refusal("{\"text\": \"" + std::string(100000, 'a')).size() < 300u);
  BOOST_TEST(mentions(refusal(R"({"text": "a", "text": "b"})"), "'text' stands twice"));
  BOOST_TEST(mentions(refusal(R"({"text": "a", "x": [{"k": 1, "l": {"k": 2}, "k": 3}]})"), "'k' stands twice"));
  BOOST_TEST(refusal(R"({"text": "a", "x": [{"k": 1, "l": {"k": 2}}, {"k": 3}]})") == "");
  BOOST_TEST(refusal("{\"text\": \"a\", \"x\": " + std::string(500, '[') + std::string(500, ']') + "}") == "");
  BOOST_TEST(refusal("{\"text\": \"a\", \"x\": " + std::string(100000, '[') + std::string(100000, ']') + "}") ==
             "its values are nested deeper than 512");
  BOOST_TEST(mentions(refusal("[1]"), "begins an array"));
  BOOST_TEST(mentions(refusal("1"), "the record is number"));
  BOOST_TEST(mentions(refusal("{}"), "no keys"));
  BOOST_TEST(mentions(refusal(R"({"prompt": "x"})"), "'prompt'"));
  BOOST_TEST(mentions(refusal(R"({"text": null})"), "but 'text' (null)"));
  BOOST_TEST(mentions(refusal(R"({"prompt": "x", "completion": 4})"), "'completion' of the record is number"));
  BOOST_TEST(mentions(refusal(R"({"prompt": "U", "completion": ["A"]})"), "message 1 of 'completion' is string"));
  BOOST_TEST(mentions(refusal(R"({"prompt": "U", "completion": {"content": "A"}})"), "'completion' has no 'role'"));
  BOOST_TEST(mentions(refusal(R"({"messages": []})"), "empty list"));
  BOOST_TEST(mentions(refusal(R"({"messages": ["Hi"]})"), "message 1 of 'messages' is string"));
  BOOST_TEST(mentions(refusal(R"({"messages": [{"role": "user", "content": "U"}, {"role": "assistant"}]})"),
                      "message 2 of 'messages' has no 'content'"));
  BOOST_TEST(mentions(refusal(R"({"messages": [{"role": "assistant", "content": null}]})"), "is null"));
  BOOST_TEST(mentions(refusal(R"({"conversations": [{"from": 1, "value": "a"}]})"), "'role' of message 1"));
  BOOST_TEST(mentions(refusal(R"({"conversations": [{"role": null, "value": "a"}]})"), "'role' of message 1"));
  for (const std::string pair : {R"("prompt": "P", "completion": "C")", R"("prompt": "P")", R"("completion": "C")"}) {
    BOOST_TEST(mentions(refusal(R"({"messages": [{"role": "assistant", "content": "A"}], )" + pair + "}"),
                        "only one of them can be meant"));
  }
}

BOOST_AUTO_TEST_CASE(nothing_after_a_nul_byte_is_lost) {
  const std::string nul(1, '\0');
  BOOST_TEST(mentions(refusal("{\"text\": \"a\"}" + nul + "{\"text\": \"b\"}"), "column 14 is a NUL byte"));
  BOOST_TEST(mentions(refusal("{\"text\": \"a\"}" + nul), "column 14 is a NUL byte"));
  BOOST_TEST(mentions(refusal("{\"text\": \"a" + nul + "b\"}"), "column 12 is a NUL byte"));
}

BOOST_AUTO_TEST_CASE(what_chatml_cannot_show_is_refused) {
  const auto in_message = [](const std::string& field) {
    return refusal(R"({"messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "", )" + field +
                   "}]}");
  };
  BOOST_TEST(mentions(in_message(R"("tool_calls": [{"function": {"name": "f"}}])"),
                      "message 2 of 'messages' has 'tool_calls', and ChatML has no form for tools"));
  BOOST_TEST(mentions(in_message(R"("function_call": {"name": "f"})"), "message 2 of 'messages' has 'function_call'"));
  for (const std::string name : {"reasoning_content", "reasoning", "thinking"}) {
    BOOST_TEST(mentions(in_message("\"" + name + "\": \"hm\""), "message 2 of 'messages' has '" + name + "'"));
  }
  BOOST_TEST(in_message(R"("tool_calls": [], "function_call": null, "reasoning_content": "")") == "");

  const std::string tools = R"("tools": [{"name": "f"}])";
  const std::string user = R"([{"role": "user", "content": "U"}])";
  BOOST_TEST(mentions(refusal(R"({"messages": )" + user + ", " + tools + "}"), "the record has 'tools'"));
  BOOST_TEST(mentions(refusal(R"({"prompt": )" + user + R"(, "completion": )" + user + ", " + tools + "}"),
                      "the record has 'tools'"));
  BOOST_TEST(mentions(refusal(R"({"prompt": "P", "completion": "C", )" + tools + "}"), "the record has 'tools'"));
  BOOST_TEST(mentions(refusal(R"({"text": "T", )" + tools + "}"), "the record has 'tools'"));
  BOOST_TEST(mentions(refusal(R"({"text": "T", "images": ["a.png"]})"), "the record has 'images'"));
  BOOST_TEST(refusal(R"({"text": "T", "tools": [], "images": null, "functions": ""})") == "");
}

BOOST_AUTO_TEST_CASE(assistant_only_loss_refuses_records_without_roles) {
  BOOST_TEST(mentions(refusal(R"({"text": "a"})", assistant_only), "needs messages"));
  BOOST_TEST(mentions(refusal(R"({"prompt": "a", "completion": "b"})", assistant_only), "needs messages"));
}

BOOST_AUTO_TEST_SUITE_END()
