#include "sft/data/example.hpp"

#include <boost/test/unit_test.hpp>
#include <stdexcept>

#include "sft/text/byte_tokenizer.hpp"

using namespace sft::data;

namespace {

const sft::text::ByteTokenizer tokenizer;

/// What a record becomes, what is not trained on in brackets.
std::string rendered(const std::string& record, const ExampleOptions& options = {}) {
  const Document document = make_document(record, tokenizer, options);
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

constexpr ExampleOptions everything = {.completion_only_loss = false, .assistant_only_loss = false};
constexpr ExampleOptions assistant_only = {.completion_only_loss = true, .assistant_only_loss = true};

std::string refusal(const std::string& record, const ExampleOptions& options = {}) {
  try {
    (void)make_document(record, tokenizer, options);
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
  const Document document = make_document(R"({"text": "<|im_end|>\u003c|eos|>"})", tokenizer, {});
  BOOST_TEST(std::count_if(document.tokens.begin(), document.tokens.end(), [](auto id) { return id >= 256; }) == 1);
  BOOST_TEST(make_document(R"({"text": "a\u0000b"})", tokenizer, {}).tokens.size() == 4u);
}

BOOST_AUTO_TEST_CASE(other_keys_are_ignored_and_a_pair_goes_before_messages_before_text) {
  BOOST_TEST(rendered(R"({"id": 7, "text": "Hi", "source": null})") == "Hi<|eos|>");
  BOOST_TEST(rendered(R"({"text": "T", "prompt": "P", "completion": "C"})") == "[P]C<|eos|>");
  BOOST_TEST(rendered(R"({"prompt": "P", "messages": [{"role": "user", "content": "U"}]})") ==
             "<|im_start|>user\nU<|im_end|>\n");
}

BOOST_AUTO_TEST_CASE(bad_records_are_refused_with_the_reason) {
  BOOST_TEST(mentions(refusal("{"), "not JSON: parse error"));
  BOOST_TEST(mentions(refusal(R"({"text": "a"} x)"), "not JSON"));
  BOOST_TEST(mentions(refusal("{\"text\": \"\xff\"}"), "not JSON"));
  BOOST_TEST(mentions(refusal(R"({"text": "\ud83d"})"), "not JSON"));
  BOOST_TEST(mentions(refusal("[1]"), "the record is array"));
  BOOST_TEST(mentions(refusal("{}"), "no keys"));
  BOOST_TEST(mentions(refusal(R"({"prompt": "x"})"), "'prompt'"));
  BOOST_TEST(mentions(refusal(R"({"text": null})"), "'text' of the record is null"));
  BOOST_TEST(mentions(refusal(R"({"prompt": "x", "completion": 4})"), "'completion' of the record is number"));
  BOOST_TEST(mentions(refusal(R"({"prompt": [{"role": "user", "content": "U"}], "completion": "A"})"),
                      "'completion' is string, not a list"));
  BOOST_TEST(mentions(refusal(R"({"messages": []})"), "empty list"));
  BOOST_TEST(mentions(refusal(R"({"messages": ["Hi"]})"), "message 1 of 'messages' is string"));
  BOOST_TEST(mentions(refusal(R"({"messages": [{"role": "user", "content": "U"}, {"role": "assistant"}]})"),
                      "message 2 of 'messages' has no 'content'"));
  BOOST_TEST(mentions(refusal(R"({"messages": [{"role": "assistant", "content": null}]})"), "is null"));
  BOOST_TEST(mentions(refusal(R"({"messages": [{"role": "user", "content": "U"}, {"role": "assistant", "content": "",
                                  "tool_calls": [{"function": {"name": "f"}}]}]})"),
                      "message 2 of 'messages' has 'tool_calls'"));
  BOOST_TEST(mentions(refusal(R"({"messages": [{"role": "user", "content": "U"}], "tools": [{"name": "f"}]})"),
                      "the record has 'tools'"));
  BOOST_TEST(refusal(R"({"messages": [{"role": "user", "content": "U", "tool_calls": null}], "tools": []})") == "");
}

BOOST_AUTO_TEST_CASE(assistant_only_loss_refuses_records_without_roles) {
  BOOST_TEST(mentions(refusal(R"({"text": "a"})", assistant_only), "needs messages"));
  BOOST_TEST(mentions(refusal(R"({"prompt": "a", "completion": "b"})", assistant_only), "needs messages"));
}

BOOST_AUTO_TEST_SUITE_END()
