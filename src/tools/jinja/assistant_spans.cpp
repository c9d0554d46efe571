// SPDX-License-Identifier: Apache-2.0
// What the assistant wrote, derived from the origin of the text.

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sft/jinja/chat_template.hpp"
#include "sft/jinja/error.hpp"

namespace sft::jinja {

namespace {

using Json = nlohmann::ordered_json;

/// Families of templates whose marked versions in TRL (chat_templates/*_training.jinja) train on another part of a turn
/// than from behind the header on. They are known by words of the template.
struct Family {
  std::string_view words;
  std::string_view trained_header;  ///< this end of the header is trained as well
  std::string_view untrained_end;   ///< this end of the turn is not trained
  bool ends_with_next_role;         ///< the token of the role that follows ends the turn
};
constexpr std::array<Family, 5> families = {{
    {"You are Qwen, created by Alibaba Cloud", "\n", "", false},
    {"<｜Assistant｜>", "<｜Assistant｜>", "", false},
    {"<|start|>assistant", "<|start|>assistant", "", false},
    {"<|tool_response>", "", "<|tool_response>", false},
    {"[gMASK]<sop>", "", "", true},
}};

Family family_of(const std::string& source) {
  const auto found = std::find_if(families.begin(), families.end(),
                                  [&](const Family& family) { return source.find(family.words) != std::string::npos; });
  return found == families.end() ? Family{} : *found;
}

bool is_assistant(const Json& messages, std::int32_t index) {
  if (index < 0 || static_cast<std::size_t>(index) >= messages.size()) return false;
  const auto role = messages[index].find("role");
  return role != messages[index].end() && *role == "assistant";
}

/// The position where two texts part; before a tag such as <|assistant|> if they share no more than its beginning.
std::size_t before_tag(std::string_view text, std::size_t position) {
  if (position == text.size()) return position;
  const std::size_t tag = text.substr(0, position).find_last_of("<>");
  return tag != std::string_view::npos && text[tag] == '<' ? tag : position;
}

/// What `add_generation_prompt` appends to the messages before the first of the assistant; nothing where the template
/// refuses them.
std::string generation_prompt(const Template& chat_template, const Json& context, const RenderOptions& options) {
  Json asked = context;
  Json& messages = asked["messages"];
  std::size_t count = 0;
  while (count < messages.size() && !is_assistant(messages, static_cast<std::int32_t>(count))) ++count;
  messages.erase(messages.begin() + static_cast<std::ptrdiff_t>(count), messages.end());
  if (messages.empty()) messages.push_back({{"role", "user"}, {"content", "."}});
  std::string with_prompt, without_prompt;
  try {
    asked["add_generation_prompt"] = true;
    with_prompt = chat_template.render(asked, options).text;
    asked["add_generation_prompt"] = false;
    without_prompt = chat_template.render(asked, options).text;
  } catch (const TemplateError&) {
    return {};
  }
  const auto border =
      std::mismatch(with_prompt.begin(), with_prompt.end(), without_prompt.begin(), without_prompt.end());
  std::string prompt =
      with_prompt.substr(before_tag(with_prompt, static_cast<std::size_t>(border.first - with_prompt.begin())));
  // A block of thought that the prompt opens is the assistant's own.
  prompt.resize(std::min(prompt.find("<think"), prompt.size()));
  return prompt;
}

/// Consecutive fragments of one turn.
struct Turn {
  std::size_t first = 0, end = 0;  ///< fragments
  std::int32_t message = -1;
};

class Deriver {
 public:
  Deriver(const Rendered& rendered, const Json& messages, std::string prompt, const Family& family)
      : rendered_(rendered), messages_(messages), prompt_(std::move(prompt)), family_(family) {}

  std::vector<ByteSpan> run() {
    const std::vector<Fragment>& fragments = rendered_.fragments;
    for (std::size_t i = 0; i < fragments.size();) {
      std::size_t end = i + 1;
      while (end < fragments.size() && fragments[end].turn == fragments[i].turn) ++end;
      if (is_assistant(messages_, fragments[i].turn)) add_turn({i, end, fragments[i].turn});
      i = end;
    }
    return std::move(spans_);
  }

 private:
  /// Whether the bytes are what the message of this turn holds besides its role.
  [[nodiscard]] bool is_own(const Fragment& fragment, const Turn& turn) const {
    if (fragment.source < 0) return false;
    const Source& source = rendered_.sources[fragment.source];
    return source.message == turn.message && source.field != "role";
  }
  [[nodiscard]] bool is_others(const Fragment& fragment) const {
    return fragment.source >= 0 && !is_assistant(messages_, rendered_.sources[fragment.source].message);
  }
  [[nodiscard]] std::string_view text(ByteSpan span) const {
    return std::string_view(rendered_.text).substr(span.begin, span.end - span.begin);
  }

  /// Where the trained part of a turn begins: behind the header.
  [[nodiscard]] std::size_t begin_of(const Turn& turn) const {
    const auto first = rendered_.fragments.begin() + static_cast<std::ptrdiff_t>(turn.first);
    const auto end = rendered_.fragments.begin() + static_cast<std::ptrdiff_t>(turn.end);
    const auto own = std::find_if(first, end, [&](const Fragment& fragment) { return is_own(fragment, turn); });
    const std::size_t turn_begin = first->bytes.begin;
    const std::size_t own_begin = own == end ? (end - 1)->bytes.end : own->bytes.begin;
    const std::string_view before = text({turn_begin, own_begin});
    if (prompt_.empty()) {
      // Without a header to know, what the message says begins the part; blanks alone are no header.
      return before.find_first_not_of(' ') == std::string_view::npos ? turn_begin : own_begin;
    }
    // Other words may stand before the header: the token that begins the text, a system message that was not given.
    if (const std::size_t header = before.rfind(prompt_); header != std::string_view::npos) {
      const std::size_t header_end = turn_begin + header + prompt_.size();
      return prompt_.ends_with(family_.trained_header) ? header_end - family_.trained_header.size() : header_end;
    }
    const std::string_view whole = text({turn_begin, (end - 1)->bytes.end});
    const auto border = std::mismatch(whole.begin(), whole.end(), prompt_.begin(), prompt_.end());
    const std::size_t shared = before_tag(whole, static_cast<std::size_t>(border.first - whole.begin()));
    const bool is_header_trained = family_.trained_header.size() > 1 && prompt_.starts_with(family_.trained_header);
    return is_header_trained ? turn_begin : turn_begin + shared;
  }

  void add_turn(const Turn& turn) {
    const std::size_t begin = begin_of(turn);
    const ByteSpan whole = {rendered_.fragments[turn.first].bytes.begin, rendered_.fragments[turn.end - 1].bytes.end};
    const std::size_t end =
        whole.end - (text(whole).ends_with(family_.untrained_end) ? family_.untrained_end.size() : 0);
    for (std::size_t i = turn.first; i < turn.end; ++i) {
      const Fragment& fragment = rendered_.fragments[i];
      const ByteSpan part = {std::max(begin, fragment.bytes.begin), std::min(end, fragment.bytes.end)};
      if (!is_others(fragment) && part.begin < part.end) add(part);
    }
    if (turn.end == rendered_.fragments.size() || spans_.empty()) return trim_blanks();
    const Fragment& next = rendered_.fragments[turn.end];
    const bool is_last_message = static_cast<std::size_t>(turn.message) + 1 == messages_.size();
    if (family_.ends_with_next_role) {
      const std::string_view rest = std::string_view(rendered_.text).substr(next.bytes.begin);
      const std::size_t token_end = rest.find("|>");
      const bool is_token = rest.starts_with("<|") && token_end != std::string_view::npos;
      if (is_token) add({next.bytes.begin, next.bytes.begin + token_end + 2});
    } else if (is_last_message && turn.end + 1 == rendered_.fragments.size() && next.source < 0 && next.turn < 0 &&
               (prompt_.empty() || !text(next.bytes).ends_with(prompt_))) {
      add(next.bytes);  // what the template writes when all is said, such as the token that ends the text
    }
    trim_blanks();
  }

  /// Blanks behind the token that ends a turn are not the assistant's.
  void trim_blanks() {
    if (spans_.empty()) return;
    ByteSpan& last = spans_.back();
    const std::size_t kept = text(last).find_last_not_of(' ');
    if (kept != std::string_view::npos && text(last)[kept] == '>') last.end = last.begin + kept + 1;
  }

  void add(ByteSpan span) {
    if (!spans_.empty() && spans_.back().end == span.begin) {
      spans_.back().end = span.end;
    } else {
      spans_.push_back(span);
    }
  }

  const Rendered& rendered_;
  const Json& messages_;
  const std::string prompt_;
  const Family family_;
  std::vector<ByteSpan> spans_;
};

}  // namespace

std::vector<ByteSpan> assistant_spans(const Template& chat_template, const Json& context, const Rendered& rendered,
                                      const RenderOptions& options) {
  if (chat_template.has_generation()) return rendered.generation;
  const auto messages = context.find("messages");
  if (messages == context.end() || !messages->is_array()) return {};
  return Deriver(rendered, *messages, generation_prompt(chat_template, context, options),
                 family_of(chat_template.source()))
      .run();
}

}  // namespace sft::jinja
