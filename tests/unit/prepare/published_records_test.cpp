// SPDX-License-Identifier: Apache-2.0
// Records of published data sets under other names: the options that a refusal names read all of the record.

#include <boost/test/unit_test.hpp>
#include <regex>
#include <sstream>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "sft/prepare/example.hpp"
#include "sft/text/byte_tokenizer.hpp"

using namespace sft::prepare;

namespace {

/// The text that a record becomes.
std::string text_of(const std::string& record, const ExampleOptions& options, RecordCensus& census) {
  return sft::text::ByteTokenizer().decode(ExampleMaker({}, options).make(record, census).tokens);
}

std::string refusal_of(const std::string& record) {
  try {
    RecordCensus census;
    (void)text_of(record, {}, census);
  } catch (const std::invalid_argument& reason) {
    return reason.what();
  }
  return "";
}

std::vector<std::string> split(const std::string& list) {
  std::vector<std::string> parts;
  std::istringstream stream(list);
  for (std::string part; std::getline(stream, part, ',');) parts.push_back(part);
  return parts;
}

/// The options that a refusal tells to give.
ExampleOptions options_in(const std::string& refusal) {
  ExampleOptions options;
  const std::regex option("--(rename|ignore_fields|dataset_text_field) ([^ ;:)]+)");
  for (std::sregex_iterator at(refusal.begin(), refusal.end(), option); at != std::sregex_iterator(); ++at) {
    const std::string name = (*at)[1], value = (*at)[2];
    if (name == "dataset_text_field") options.dataset_text_field = value;
    for (const std::string& part : split(value)) {
      const std::size_t mark = part.find('=');
      if (name == "ignore_fields") options.ignore_fields.push_back(part);
      if (name == "rename") options.rename_fields.emplace_back(part.substr(0, mark), part.substr(mark + 1));
    }
  }
  return options;
}

struct Published {
  const char* name;
  std::string record;             ///< its values to be trained on are QUESTION, ANSWER, SYSTEM and so on
  std::vector<std::string> said;  ///< what the text must have, in this order
};

const std::string user = R"({"role": "user", "content": "QUESTION"})";
const std::string assistant = R"({"role": "assistant", "content": "ANSWER"})";
const std::string chat = "[" + user + ", " + assistant + "]";
const std::string other_chat = "[" + user + R"(, {"role": "assistant", "content": "WORSE"}])";
const std::string worse = R"({"role": "assistant", "content": "WORSE"})";
const std::vector<std::string> both = {"QUESTION", "ANSWER"};
const std::vector<std::string> system_and_both = {"SYSTEM", "QUESTION", "ANSWER"};

const std::vector<Published> published = {
    {"Dolly",
     R"({"instruction": "QUESTION", "context": "CONTEXT", "response": "ANSWER", "category": "qa"})",
     {"QUESTION", "CONTEXT", "ANSWER"}},
    {"ms-swift",
     R"({"system": "SYSTEM", "query": "QUESTION", "response": "ANSWER", "history": [["FORMER", "SAID"]]})",
     {"SYSTEM", "FORMER", "SAID", "QUESTION", "ANSWER"}},
    {"Nemotron", R"({"input": [)" + user + R"(], "output": "ANSWER", "system_prompt": "SYSTEM", "reasoning": "off"})",
     system_and_both},
    {"UltraChat", R"({"prompt": "QUESTION", "prompt_id": "1", "messages": )" + chat + "}", both},
    {"no_robots", R"({"prompt": "QUESTION", "prompt_id": "1", "category": "c", "messages": )" + chat + "}", both},
    {"OpenOrca", R"({"id": "1", "system_prompt": "SYSTEM", "question": "QUESTION", "response": "ANSWER"})",
     system_and_both},
    {"OpenOrca without a system prompt",
     R"({"id": "1", "system_prompt": "", "question": "QUESTION", "response": "ANSWER"})", both},
    {"code-alpaca with a prompt", R"({"instruction": "QUESTION", "input": "", "output": "ANSWER", "prompt": "WORSE"})",
     both},
    {"Capybara",
     R"({"source": "s", "conversation": [{"input": "QUESTION", "output": "ANSWER"}, {"input": "NEXT", "output": "LAST"}]})",
     {"QUESTION", "ANSWER", "NEXT", "LAST"}},
    {"Firefly of several turns",
     R"({"conversation_id": 1, "conversation": [{"human": "QUESTION", "assistant": "ANSWER"}]})", both},
    {"other roles",
     R"({"chat": [{"role": "Human", "content": "QUESTION"}, {"role": "AI", "content": "ANSWER"}]})",
     {"user\nQUESTION", "assistant\nANSWER"}},
    {"UltraChat of texts",
     R"({"id": "1", "data": ["QUESTION", "ANSWER", "NEXT", "LAST"]})",
     {"QUESTION", "ANSWER", "NEXT", "LAST"}},
    {"lmsys-chat", R"({"conversation_id": "1", "conversation": )" + chat + "}", both},
    {"ShareGPT with items",
     R"({"id": "1", "items": [{"from": "human", "value": "QUESTION"}, {"from": "gpt", "value": "ANSWER"}]})", both},
    {"a list under any name", R"({"log": )" + chat + R"(, "system_prompt": "SYSTEM"})", system_and_both},
    {"hh-rlhf", R"({"chosen": "Human: QUESTION Assistant: ANSWER", "rejected": "WORSE"})", both},
    {"preferences of conversations", R"({"chosen": )" + chat + R"(, "rejected": )" + other_chat + "}", both},
    {"UltraFeedback", R"({"prompt": "QUESTION", "chosen": )" + chat + R"(, "rejected": )" + other_chat + "}", both},
    {"UltraFeedback with messages",
     R"({"prompt": "QUESTION", "messages": )" + chat + R"(, "chosen": [], "rejected": )" + other_chat + "}", both},
    {"preferences with a prompt of messages",
     R"({"prompt": [)" + user + R"(], "chosen": [)" + assistant +
         R"(], "rejected": [{"role": "assistant", "content": "WORSE"}]})",
     both},
    {"an answer of messages that was chosen",
     R"({"prompt": "QUESTION", "chosen": [)" + assistant + R"(], "rejected": [)" + worse + "]}", both},
    {"an answer of one message that was chosen",
     R"({"system": "SYSTEM", "question": "QUESTION", "chosen": )" + assistant + R"(, "rejected": )" + worse + "}",
     system_and_both},
    {"a prompt of messages that what was chosen repeats",
     R"({"prompt": [)" + user + R"(], "chosen": )" + chat + R"(, "rejected": )" + other_chat + "}", both},
    {"LLaMA-Factory's preferences",
     R"({"conversations": [{"from": "human", "value": "QUESTION"}], "chosen": {"from": "gpt", "value": "ANSWER"},
         "rejected": {"from": "gpt", "value": "WORSE"}})",
     {"user\nQUESTION", "assistant\nANSWER"}},
    {"LLaMA-Factory's KTO",
     R"({"conversations": [{"from": "human", "value": "QUESTION"}, {"from": "gpt", "value": "ANSWER"}],
         "kto_tag": false})",
     both},
    {"ms-swift's KTO", R"({"messages": )" + chat + R"(, "label": false})", both},
    {"KTO of Alpaca", R"({"instruction": "QUESTION", "output": "ANSWER", "kto_tag": 0})", both},
    {"an answer beside its question", R"({"messages": [)" + user + R"(], "response": "ANSWER"})", both},
    {"an answer beside its question and the question again",
     R"({"prompt": "WORSE", "messages": [)" + user + R"(], "answer": "ANSWER"})", both},
    {"a completion of messages", R"({"messages": [)" + user + R"(], "completion": "ANSWER"})", both},
    {"a completion, its prompt and the prompt again",
     R"({"messages": [{"role": "user", "content": "WORSE"}], "prompt": "QUESTION", "completion": "ANSWER"})", both},
    {"an answer to what a tool found",
     R"({"system": "SYSTEM", "conversations": [{"from": "human", "value": "QUESTION"}, {"from": "gpt", "value": "CALL"},
         {"from": "observation", "value": "FOUND"}], "output": [{"role": "assistant", "content": "ANSWER"}]})",
     {"SYSTEM", "QUESTION", "CALL", "FOUND", "ANSWER"}},
    {"a prompt beside a question and its answer",
     R"({"prompt": ["WORSE"], "question": "QUESTION", "answer": "ANSWER"})", both},
    {"preferences of texts", R"({"prompt": "QUESTION", "chosen": "ANSWER", "rejected": "WORSE"})", both},
    {"orca_dpo_pairs", R"({"system": "SYSTEM", "question": "QUESTION", "chosen": "ANSWER", "rejected": "WORSE"})",
     system_and_both},
    {"aya", R"({"inputs": "QUESTION", "targets": "ANSWER", "language": "Thai"})", both},
    {"a context beside input",
     R"({"context": "CONTEXT", "input": "QUESTION", "output": "ANSWER"})",
     {"QUESTION", "CONTEXT", "ANSWER"}},
    {"a context that is no text", R"({"context": {"title": []}, "question": "QUESTION", "answer": "ANSWER"})", both},
    {"Firefly", R"({"kind": "k", "input": "QUESTION", "target": "ANSWER"})", both},
    {"MetaMathQA", R"({"type": "t", "query": "QUESTION", "original_question": "o", "response": "ANSWER"})", both},
    {"NuminaMath", R"({"problem": "QUESTION", "solution": "ANSWER", "answer": "7"})", both},
    {"OpenMathInstruct", R"({"problem": "QUESTION", "generated_solution": "ANSWER", "expected_answer": "7"})", both},
    {"s1K-1.1",
     R"({"solution": "ANSWER", "question": "QUESTION", "cot_type": "math", "metadata": "{}", "gemini_attempt": "a",
         "gemini_thinking_trajectory": "t", "deepseek_attempt": "a", "deepseek_thinking_trajectory": "t"})",
     both},
    {"OpenThoughts", R"({"problem": "QUESTION", "deepseek_reasoning": "t", "deepseek_solution": "ANSWER",
                         "ground_truth_solution": "s", "starter_code": null})",
     both},
    {"dolphin-r1", R"({"messages": [)" + user + R"(], "reasoning": "t", "answer": "ANSWER", "model": "m"})", both},
    {"medical-o1", R"({"Question": "QUESTION", "Complex_CoT": "t", "Response": "ANSWER"})", both},
    {"Chinese-DeepSeek-R1", R"({"input": "QUESTION", "reasoning_content": "t", "content": "ANSWER", "score": 9})",
     both},
    {"OpenCodeReasoning", R"({"input": "QUESTION", "output": "ANSWER", "solution": "s"})", both},
    {"names of another author", R"({"task": "QUESTION", "gold_response": "ANSWER", "model_response": "r"})", both},
    {"a title beside a text", R"({"title": "t", "content": "QUESTION ANSWER"})", both},
    {"a conversation in a text of JSON",
     R"({"conversation": "[{\"role\": \"user\", \"content\": \"QUESTION\"}, )"
     R"({\"role\": \"assistant\", \"content\": \"ANSWER\"}]", "rating": 3})",
     both},
    {"preferences in a text of JSON",
     R"({"prompt": "QUESTION", "chosen": "[{\"role\": \"user\", \"content\": \"QUESTION\"}, )"
     R"({\"role\": \"assistant\", \"content\": \"ANSWER\"}]", "rejected": "[]"})",
     both},
    {"glaive", R"({"system": "s", "chat": "USER: QUESTION\n\n\nASSISTANT: ANSWER <|endoftext|>"})", both},
    {"HelpSteer", R"({"prompt": "QUESTION", "response": "ANSWER", "helpfulness": 4})", both},
    {"samsum", R"({"id": "1", "dialogue": "QUESTION", "summary": "ANSWER"})", both},
    {"KTO", R"({"prompt": "QUESTION", "completion": "ANSWER", "label": false})", both},
    {"GSM8K", R"({"question": "QUESTION", "answer": "ANSWER"})", both},
    {"OIG", R"({"content": "QUESTION ANSWER", "meta": {"source": "s"}})", both},
    {"a system beside a prompt", R"({"system": "WORSE", "prompt": "QUESTION", "completion": "ANSWER"})", both},
    {"two lists", R"({"messages": )" + chat + R"(, "conversations": [{"from": "gpt", "value": "WORSE"}]})", both},
    {"two systems",
     R"({"system": "WORSE", "messages": [{"role": "system", "content": "SYSTEM"}, )" + user + ", " + assistant + "]}",
     system_and_both},
    {"thoughts",
     R"({"messages": [)" + user + R"(, {"role": "assistant", "content": "ANSWER", "reasoning_content": "WORSE"}]})",
     both},
    {"Axolotl", R"({"conversations": [{"from": "human", "value": "QUESTION"}, {"from": "gpt", "value": "ANSWER",
                    "train_detail": [{"begin_offset": 0, "end_offset": 1, "train": false}]}]})",
     both},
};

/// Read without options.
const std::vector<Published> read_as_they_are = {
    {"SlimOrca", R"({"conversations": [{"from": "system", "value": "SYSTEM", "weight": null},
                     {"from": "human", "value": "QUESTION", "weight": 0}, {"from": "gpt", "value": "ANSWER", "weight": 1}]})",
     system_and_both},
    {"KTO", R"({"prompt": "QUESTION", "completion": "ANSWER", "label": true})", both},
    {"LIMA", R"({"conversations": ["QUESTION", "ANSWER"], "source": "s"})", both},
    {"Magpie", R"({"instruction": "i", "response": "r", "conversations": [{"from": "human", "value": "QUESTION"},
                   {"from": "gpt", "value": "ANSWER"}]})",
     both},
    {"ms-swift's ShareGPT", R"({"system": "SYSTEM", "conversations": [{"human": "QUESTION", "assistant": "ANSWER"}]})",
     system_and_both},
    {"Tulu", R"({"id": "1", "messages": )" + chat + R"(, "source": "s"})", both},
    {"OpenHermes", R"({"system_prompt": null, "conversations": [{"from": "human", "value": "QUESTION"},
                       {"from": "gpt", "value": "ANSWER"}], "source": "s"})",
     both},
    {"NuminaMath with messages", R"({"problem": "p", "solution": "s", "messages": )" + chat + "}", both},
    {"WizardLM", R"({"instruction": "QUESTION", "output": "ANSWER"})", both},
    {"messages in a text of JSON",
     R"({"messages": "[{\"role\": \"user\", \"content\": \"QUESTION\"}, {\"role\": \"assistant\", \"content\": \"ANSWER\"}]"})",
     both},
    {"turns of ShareGPT in a text of JSON",
     R"({"conversations": " [{\"from\": \"human\", \"value\": \"QUESTION\"}, {\"from\": \"gpt\", \"value\": \"ANSWER\"}]"})",
     both},
    {"Bedrock", R"({"schemaVersion": "bedrock-conversation-2024", "system": [{"text": "SYSTEM"}], "messages": [
                    {"role": "user", "content": [{"text": "QUESTION"}]},
                    {"role": "assistant", "content": [{"text": "ANSWER"}]}]})",
     system_and_both},
};

void check_said(const std::string& text, const Published& data_set) {
  std::size_t at = 0;
  for (const std::string& part : data_set.said) {
    const std::size_t found = text.find(part, at);
    BOOST_TEST((found != std::string::npos), part << " is not in its place in " << text);
    if (found != std::string::npos) at = found + part.size();
  }
  BOOST_TEST((text.find("WORSE") == std::string::npos), text);
}

/// A refusal names the fields that are not read with the options that it gives.
void check_named(const RecordCensus& census, const std::string& refusal) {
  for (const auto& [name, count] : census.ignored_fields.by_name()) {
    BOOST_TEST((refusal.find("'" + name + "'") != std::string::npos), name << " is lost without a word: " << refusal);
  }
}

}  // namespace

BOOST_AUTO_TEST_SUITE(published_records)

BOOST_AUTO_TEST_CASE(the_options_that_a_refusal_names_read_all_of_the_record) {
  for (const Published& data_set : published) {
    BOOST_TEST_CONTEXT(data_set.name) {
      std::string refusal = refusal_of(data_set.record);
      BOOST_REQUIRE(refusal != "");
      if (std::string(data_set.name) == "a system beside a prompt") {
        refusal = refusal.substr(refusal.find("--ignore_fields"));  // the other way that it names comes below
      }
      try {
        RecordCensus census;
        check_said(text_of(data_set.record, options_in(refusal), census), data_set);
        if (refusal.find("and also") == std::string::npos) check_named(census, refusal);
      } catch (const std::invalid_argument& next) {
        BOOST_ERROR(refusal << " -- and then: " << next.what());
      }
    }
  }
}

BOOST_AUTO_TEST_CASE(a_system_beside_a_prompt_of_text_may_be_kept) {
  const std::string record = R"({"system": "S", "prompt": "Q", "completion": "A"})";
  const std::string refusal = refusal_of(record);
  const ExampleOptions renaming = options_in(refusal.substr(0, refusal.find("; --ignore_fields")));
  RecordCensus census;
  BOOST_TEST(text_of(record, renaming, census) ==
             "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nQ<|im_end|>\n<|im_start|>assistant\nA<|im_end|>\n");
}

BOOST_AUTO_TEST_CASE(other_published_records_are_read_as_they_are) {
  for (const Published& data_set : read_as_they_are) {
    BOOST_TEST_CONTEXT(data_set.name) {
      BOOST_TEST(refusal_of(data_set.record) == "");
      RecordCensus census;
      check_said(text_of(data_set.record, {}, census), data_set);
    }
  }
}

BOOST_AUTO_TEST_CASE(labels_that_do_not_judge_are_no_reason) {
  for (const char* label : {R"("label": 0)", R"("label": true)", R"("label": null)", R"("kto_tag": 1)"}) {
    BOOST_TEST(refusal_of(R"({"text": "T", )" + std::string(label) + "}") == "");
  }
  BOOST_TEST(refusal_of(R"({"text": "T", "label": "False"})").find("'label' is false") != std::string::npos);
}

BOOST_AUTO_TEST_CASE(files_of_records_in_one_object_are_taken_apart) {
  for (const std::string records : {R"({"data": [{"messages": []}]})", R"({"version": "1", "data": [{"title": "t"}]})",
                                    R"({"data": [{"question": "Q", "answer": "A"}]})"}) {
    const std::string refusal = refusal_of(records);
    BOOST_TEST((refusal.find(R"(| .["data"][]' FILE` makes JSON lines)") != std::string::npos), refusal);
  }
}

BOOST_AUTO_TEST_CASE(systems_that_are_no_text_are_named_as_such) {
  BOOST_TEST(refusal_of(R"({"system": 5, "messages": )" + chat + "}") ==
             "'system' of the record is number, not a string");
}

BOOST_AUTO_TEST_CASE(answers_that_no_option_can_add_are_to_be_written) {
  const std::string texts = refusal_of(R"({"conversations": ["Q"], "answer": "A"})");
  BOOST_TEST(texts.ends_with("'answer' holds an answer: write that as the last turn of 'conversations'"), texts);
  const std::string in_two =
      refusal_of(R"({"instruction": "Q", "input": "I", "chosen": [)" + assistant + R"(], "rejected": []})");
  BOOST_TEST(in_two.ends_with("write all of them as 'messages'"), in_two);
  BOOST_TEST(refusal_of(R"({"messages": [)" + user + R"(], "answer": ""})") == "");
  BOOST_TEST(refusal_of(R"({"messages": )" + chat + R"(, "answer": "A"})") == "");
}

BOOST_AUTO_TEST_CASE(answers_with_thoughts_are_told_as_such) {
  const std::string refusal =
      refusal_of(R"({"question": "Q", "solution": "s", "r1_thinking": "t", "r1_attempt": "a", "thinking": "off"})");
  BOOST_TEST((refusal.find("(it may be in 'r1_attempt' too)") != std::string::npos), refusal);
  BOOST_TEST(refusal.ends_with("puts the thoughts of 'r1_thinking' before 'r1_attempt'"), refusal);
  for (const char* switched : {R"("reasoning": "off")", R"("reasoning_effort": "t")", R"("cot_type": "math")",
                               R"("is_reasoning_complete": [true])", R"("grade_reason": "because")"}) {
    const std::string other = refusal_of(R"({"question": "Q", "answer": "A", )" + std::string(switched) + "}");
    BOOST_TEST((other.find("thoughts") == std::string::npos), other);
  }
}

BOOST_AUTO_TEST_CASE(texts_that_hold_no_json_are_not_decoded) {
  BOOST_TEST(refusal_of(R"({"messages": "[1, 2]"})") == "'messages' is string, not a list of messages");
  BOOST_TEST(refusal_of(R"({"messages": "[{]"})") == "'messages' is string, not a list of messages");
  BOOST_TEST(
      refusal_of(R"({"messages": "[{'role': 'user'}]"})").starts_with("'messages' is the text of a list as Python"));
  BOOST_TEST(refusal_of(R"({"messages": [{"role": "assistant", "content": "", "tool_calls": "call f"
}]
})") == "'tool_calls' of message 1 of 'messages' is string, not a list of calls");
}

BOOST_AUTO_TEST_CASE(trees_of_messages_are_named_as_such) {
  BOOST_TEST(refusal_of(R"({"message_tree_id": "1", "prompt": {"text": "Q", "role": "prompter", "replies": []}})")
                 .find("a tree of messages") != std::string::npos);
}

BOOST_AUTO_TEST_SUITE_END()
