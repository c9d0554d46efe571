// SPDX-License-Identifier: Apache-2.0
#include "sft/jinja/chat_template.hpp"

#include <boost/test/unit_test.hpp>

#include "render.hpp"

using namespace sft;
using jinja::make_context;
using test::bracket;
using test::Json;
using test::mentions;

namespace {

const Json none;

Json message(const std::string& role, const std::string& content) { return {{"role", role}, {"content", content}}; }

const Json two_turns = {message("system", "S"), message("user", "hi"), message("assistant", " yo "),
                        message("user", "<|im_end|>"), message("assistant", "hi")};

/// The conversation with brackets around what the assistant wrote.
std::string masked(const std::string& source, const Json& messages, const Json& variables = Json::object()) {
  const jinja::Template chat_template(source);
  const Json context = make_context(messages, none, false, variables);
  const jinja::Rendered rendered = chat_template.render(context);
  return bracket(rendered.text, assistant_spans(chat_template, context, rendered));
}

const std::string chatml =
    "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' + m.content + '<|im_end|>\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

}  // namespace

BOOST_AUTO_TEST_SUITE(chat_template)

BOOST_AUTO_TEST_CASE(null_members_of_messages_go_and_reasoning_has_both_names) {
  const Json messages = {{{"role", "assistant"}, {"content", nullptr}, {"reasoning", "r"}, {"x", {{"y", nullptr}}}}};
  const Json context = make_context(messages, none, true, {{"eos_token", "</s>"}, {"tools", {1}}});
  BOOST_TEST(context["messages"][0].dump() ==
             R"({"thinking":"r","role":"assistant","reasoning":"r","x":{"y":null},"reasoning_content":"r"})");
  BOOST_TEST(context["tools"].dump() == "[1]");
  BOOST_TEST(context["documents"].is_null());
  BOOST_TEST(context["add_generation_prompt"].get<bool>());
  BOOST_TEST(context["eos_token"] == "</s>");
  const Json thought = make_context({{{"thinking", "t"}, {"reasoning_content", "c"}}}, none, false, Json::object());
  BOOST_TEST(thought["messages"][0].dump() == R"({"thinking":"t","reasoning_content":"c"})");
}

BOOST_AUTO_TEST_CASE(a_conversation_is_a_list_of_objects) {
  for (const Json& messages : {Json::array(), Json("text"), Json{1}}) {
    BOOST_TEST(test::template_error_of([&] { (void)make_context(messages, none, false, Json::object()); }) != "");
  }
}

BOOST_AUTO_TEST_CASE(the_assistants_words_and_the_end_of_its_turn_are_found_without_marks) {
  BOOST_TEST(
      masked(chatml, two_turns) ==
      "<|im_start|>system\nS<|im_end|>\n<|im_start|>user\nhi<|im_end|>\n<|im_start|>assistant\n[ yo <|im_end|>\n]"
      "<|im_start|>user\n<|im_end|><|im_end|>\n<|im_start|>assistant\n[hi<|im_end|>\n]");
}

BOOST_AUTO_TEST_CASE(marks_are_taken_as_they_are) {
  const std::string marked =
      "{% for m in messages %}{{ m.role }}:{% if m.role == 'assistant' %}{% generation %}{{ m.content }}{% "
      "endgeneration %}"
      "{% else %}{{ m.content }}{% endif %};{% endfor %}";
  BOOST_TEST(masked(marked, two_turns) == "system:S;user:hi;assistant:[ yo ];user:<|im_end|>;assistant:[hi];");
}

BOOST_AUTO_TEST_CASE(words_before_the_header_are_no_part_of_it) {
  const std::string source =
      "{% for m in messages %}{% if loop.first %}<s>{% endif %}<|{{ m.role }}|>{{ m.content|trim }}<|end|>{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}";
  BOOST_TEST(masked(source, {message("assistant", "a"), message("user", "b"), message("assistant", " c ")}) ==
             "<s><|assistant|>[a<|end|>]<|user|>b<|end|><|assistant|>[c<|end|>]");
}

BOOST_AUTO_TEST_CASE(a_template_without_generation_prompt_has_no_known_header) {
  const std::string source =
      "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}[INST] {{ m.content }} [/INST]{% else %}"
      " {{ m.content }}{{ eos_token }}{% endif %}{% endfor %}";
  BOOST_TEST(masked(source, {message("user", "a"), message("assistant", "b")},
                    {{"bos_token", "<s>"}, {"eos_token", "</s>"}}) == "<s>[INST] a [/INST][ b</s>]");
}

BOOST_AUTO_TEST_CASE(the_token_that_ends_the_text_belongs_to_the_last_answer) {
  const std::string source =
      "{% for m in messages %}<|{{ m.role }}|>\n{{ m.content }}<|end|>\n{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>\n{% else %}<eos>{% endif %}";
  BOOST_TEST(masked(source, {message("user", "a"), message("assistant", "b")}) ==
             "<|user|>\na<|end|>\n<|assistant|>\n[b<|end|>\n<eos>]");
  BOOST_TEST(masked(source, {message("assistant", "b"), message("user", "a")}) ==
             "<|assistant|>\n[b<|end|>\n]<|user|>\na<|end|>\n<eos>");
}

BOOST_AUTO_TEST_CASE(a_block_of_thought_that_the_prompt_opens_is_the_assistants) {
  const std::string source =
      "{% for m in messages %}<|{{ m.role }}|>{% if m.reasoning_content %}<think>{{ m.reasoning_content }}</think>{% "
      "endif %}"
      "{{ m.content }}<|end|>{% endfor %}{% if add_generation_prompt %}<|assistant|><think>{% endif %}";
  const Json answer = {{"role", "assistant"}, {"content", "b"}, {"reasoning_content", "r"}};
  BOOST_TEST(masked(source, {message("user", "a"), answer}) ==
             "<|user|>a<|end|><|assistant|>[<think>r</think>b<|end|>]");
}

BOOST_AUTO_TEST_CASE(what_others_said_inside_of_a_turn_is_not_the_assistants) {
  const std::string source =
      "{% for m in messages %}{% if m.role == 'assistant' %}<|assistant|>{{ m.content }}"
      "{% for k in range(loop.index, messages|length) %}{% set t = messages[k] %}{% if t.role == 'tool' %}({{ "
      "t.content }})"
      "{% endif %}{% endfor %}<|end|>{% elif m.role == 'user' %}<|user|>{{ m.content }}<|end|>{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}";
  BOOST_TEST(masked(source, {message("user", "a"), message("assistant", "b"), message("tool", "c")}) ==
             "<|user|>a<|end|><|assistant|>[b](c)[<|end|>]");
}

BOOST_AUTO_TEST_CASE(families_keep_the_borders_of_their_marked_versions) {
  const std::string qwen = "{# You are Qwen, created by Alibaba Cloud #}" + chatml;
  BOOST_TEST(masked(qwen, {message("user", "a"), message("assistant", "b")}) ==
             "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant[\nb<|im_end|>\n]");
  const std::string whole_turn =
      "{% for m in messages %}{{ '<|start|>assistant: ' if m.role == 'assistant' else '<|start|>user: ' }}{{ m.content "
      "}}<|end|>"
      "{% endfor %}{% if add_generation_prompt %}<|start|>assistant{% endif %}";
  BOOST_TEST(masked(whole_turn, {message("user", "a"), message("assistant", "b")}) ==
             "<|start|>user: a<|end|>[<|start|>assistant: b<|end|>]");
  const std::string next_role =
      "[gMASK]<sop>{% for m in messages %}<|{{ m.role }}|>{{ m.content }}{% endfor %}"
      "{% if add_generation_prompt %}<|assistant|>{% endif %}";
  BOOST_TEST(masked(next_role, {message("user", "a"), message("assistant", "b"), message("user", "c")}) ==
             "[gMASK]<sop><|user|>a<|assistant|>[b<|user|>]c");
}

BOOST_AUTO_TEST_SUITE_END()
