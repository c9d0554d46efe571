// SPDX-License-Identifier: Apache-2.0
// Prompts that Axolotl writes around the fields of a record, as Jinja templates.

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <map>
#include <nlohmann/json.hpp>
#include <string_view>

#include "launch/axolotl.hpp"
#include "sft/config/values.hpp"

namespace sft::launch {

namespace {

/// Text before and around the fields, in Python's format strings.
struct Format {
  std::string system;         ///< of {system}
  std::string with_input;     ///< of {instruction} and {input}
  std::string without_input;  ///< of {instruction}
};

constexpr const char* preamble_with_input =
    "Below is an instruction that describes a task, paired with an input that provides further context. Write a "
    "response that appropriately completes the request.";
constexpr const char* preamble_without_input =
    "Below is an instruction that describes a task. Write a response that appropriately completes the request.";

/// By the word behind `alpaca:`.
const std::map<std::string, Format>& alpaca_formats() {
  static const std::map<std::string, Format> formats{
      {"instruct",
       {"{system}\n\n", "### Instruction:\n{instruction}\n\n### Input:\n{input}\n\n### Response:\n",
        "### Instruction:\n{instruction}\n\n### Response:\n"}},
      {"chat", {"SYSTEM: {system}\n", "USER: {instruction}\n{input}\nASSISTANT:", "USER: {instruction}\nASSISTANT:"}},
      {"chatml",
       {"<|im_start|>system\n{system}<|im_end|>\n",
        "<|im_start|>user\n{instruction}\n{input}<|im_end|>\n<|im_start|>assistant\n",
        "<|im_start|>user\n{instruction}<|im_end|>\n<|im_start|>assistant\n"}},
      {"phi",
       {"<|system|>\n{system}<|end|>\n", "<|user|>\n{instruction}<|end|>{input}<|assistant|>",
        "<|user|>\n{instruction}<|end|>\n<|assistant|>\n"}}};
  return formats;
}

std::string literal(std::string_view text) {
  std::string quoted = "'";
  for (const char c : text) {
    if (c == '\n') {
      quoted += "\\n";
    } else if (c == '\t') {
      quoted += "\\t";
    } else if (c == '\\' || c == '\'') {
      quoted += fmt::format("\\{}", c);
    } else {
      quoted += c;
    }
  }
  return quoted + "'";
}

/// A format string as an expression of Jinja; `fields`: what stands in for each {name}. "" where it has other names.
std::string expression_of(std::string_view format, const std::map<std::string, std::string>& fields) {
  std::string expression, text;
  const auto end_text = [&] {
    if (!text.empty()) expression += fmt::format("{}{}", expression.empty() ? "" : " ~ ", literal(text));
    text.clear();
  };
  for (std::size_t i = 0; i < format.size(); ++i) {
    const bool is_doubled = i + 1 < format.size() && format[i + 1] == format[i];
    if (format[i] == '{' && !is_doubled) {
      const std::size_t end = format.find('}', i);
      if (end == std::string_view::npos) return {};
      const auto field = fields.find(std::string(format.substr(i + 1, end - i - 1)));
      if (field == fields.end()) return {};
      end_text();
      expression += fmt::format("{}{}", expression.empty() ? "" : " ~ ", field->second);
      i = end;
    } else {
      text += format[i];
      if ((format[i] == '{' || format[i] == '}') && is_doubled) ++i;
    }
  }
  end_text();
  return expression.empty() ? "''" : expression;
}

bool is_identifier(const std::string& name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::ranges::all_of(name, [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
}

std::string alpaca_template(const Format& format, bool has_preamble) {
  const std::map<std::string, std::string> fields{{"instruction", "instruction"}, {"input", "input"}};
  const auto whole = [&](const std::string& turn, const char* preamble) {
    const std::string body = expression_of(turn, fields);
    if (!has_preamble) return body;
    return fmt::format("{} ~ {}", expression_of(format.system, {{"system", literal(preamble)}}), body);
  };
  return fmt::format("{{{{ {} if input else {} }}}}", whole(format.with_input, preamble_with_input),
                     whole(format.without_input, preamble_without_input));
}

}  // namespace

std::string prompt_template_of_type(const std::string& type) {
  const std::map<std::string, Format>& formats = alpaca_formats();
  if (type == "alpaca" || type == "alpaca_instruct.load") return alpaca_template(formats.at("instruct"), true);
  if (type == "alpaca_instruct.load_no_prompt") return alpaca_template(formats.at("instruct"), false);
  if (type == "alpaca_chat.load") return alpaca_template(formats.at("chat"), true);
  if (type == "alpaca_chat.load_no_prompt") return alpaca_template(formats.at("chat"), false);
  constexpr std::string_view prefix = "alpaca:";
  if (!type.starts_with(prefix)) return {};
  const auto found = formats.find(type.substr(prefix.size()));
  return found == formats.end() ? std::string() : alpaca_template(found->second, true);
}

std::string prompt_template_of_format(const YAML::Node& type, std::string& output, std::string& why) {
  std::map<std::string, std::string> values{{"system_prompt", ""},
                                            {"field_system", "system"},
                                            {"field_instruction", "instruction"},
                                            {"field_input", "input"},
                                            {"field_output", "output"},
                                            {"format", "{instruction} {input} "},
                                            {"no_input_format", "{instruction} "},
                                            {"system_format", "{system}"}};
  for (const auto& item : type) {
    const std::string name = item.first.as<std::string>();
    if (!values.contains(name)) {
      why = fmt::format("a format has no `{}`", name);
      return {};
    }
    if (!item.second.IsNull()) values[name] = item.second.Scalar();
  }
  for (const char* field : {"field_system", "field_instruction", "field_input"}) {
    if (!is_identifier(values[field])) why = fmt::format("`{}` is no name of a variable", values[field]);
  }
  const std::string& input = values["field_input"];
  const std::string& system = values["field_system"];
  const std::map<std::string, std::string> fields{{"instruction", values["field_instruction"]}, {"input", input}};
  const std::string with_input = expression_of(values["format"], fields);
  const std::string without_input = expression_of(values["no_input_format"], fields);
  const std::string of_system = expression_of(values["system_format"], {{"system", "said"}});
  if (with_input.empty() || without_input.empty() || of_system.empty()) {
    why = "a format has no fields but {instruction}, {input} and {system}";
  }
  if (!why.empty()) return {};
  output = values["field_output"];
  return fmt::format(
      "{{% set said = {} if {} is defined else {} %}}{{{{ ({} if said else '') ~ ({} if {} else {}) }}}}", system,
      system, literal(values["system_prompt"]), of_system, with_input, input, without_input);
}

}  // namespace sft::launch
