// SPDX-License-Identifier: Apache-2.0
#include "prepare/encoder.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "sft/core/error.hpp"

namespace sft::prepare {

namespace {

using Roles = std::set<std::string>;

void append_without_blanks(std::string& to, std::string_view text) {
  std::ranges::copy_if(text, std::back_inserter(to),
                       [](char c) { return std::string_view(" \t\n\v\f\r").find(c) == std::string_view::npos; });
}

class Trial {
 public:
  Trial(const Conversation& chat, const RenderMessages& render) : chat_(chat), render_(render) {}

  Json run() {
    Roles all;
    for (std::size_t m = 0; m < chat_.messages.size(); ++m) {
      if (has_parts(m)) all.insert(role_of(m));
    }
    if (all.empty() || shows(all)) return messages_with(all);
    Roles shown;
    for (const std::string& role : all) {
      if (all.size() > 1 && shows({role})) shown.insert(role);
    }
    return messages_with(shown.size() < 2 || shows(shown) ? shown : Roles());
  }

 private:
  [[nodiscard]] bool has_parts(std::size_t message) const { return chat_.text_parts[message].is_array(); }
  [[nodiscard]] std::string role_of(std::size_t message) const {
    return chat_.messages[message]["role"].get<std::string>();
  }

  /// With the lists of these roles, and the text of all others.
  [[nodiscard]] Json messages_with(const Roles& roles) const {
    Json messages = chat_.messages;
    for (std::size_t m = 0; m < messages.size(); ++m) {
      if (has_parts(m) && roles.contains(role_of(m))) messages[m]["content"] = chat_.text_parts[m];
    }
    return messages;
  }

  /// Without blanks, what is rendered of each message's content; nothing where the template refuses them.
  [[nodiscard]] std::optional<std::vector<std::string>> shown_of(const Json& messages) const {
    std::vector<std::string> shown(messages.size());
    try {
      const jinja::Rendered rendered = render_(messages);
      for (const jinja::Fragment& fragment : rendered.fragments) {
        if (fragment.source < 0) continue;
        const jinja::Source& source = rendered.sources[fragment.source];
        if (source.field != "content") continue;
        const std::string_view text = rendered.text;
        append_without_blanks(shown[source.message],
                              text.substr(fragment.bytes.begin, fragment.bytes.end - fragment.bytes.begin));
      }
    } catch (const Error&) {
      return std::nullopt;
    }
    return shown;
  }

  /// Whether the template shows the lists of these roles.
  bool shows(const Roles& roles) {
    const auto shown = shown_of(messages_with(roles));
    if (!shown) return false;
    for (std::size_t m = 0; m < shown->size(); ++m) {
      if (!has_parts(m) || !roles.contains(role_of(m))) continue;
      std::string whole;
      append_without_blanks(whole, chat_.messages[m]["content"].get_ref<const std::string&>());
      if ((*shown)[m] == whole) continue;
      // A template may leave a part of any content out, such as old thoughts.
      if (!of_texts_) of_texts_ = shown_of(chat_.messages).value_or(std::vector<std::string>());
      if (of_texts_->empty() || (*of_texts_)[m] != (*shown)[m]) return false;
    }
    return true;
  }

  const Conversation& chat_;
  const RenderMessages& render_;
  std::optional<std::vector<std::string>> of_texts_;  ///< what is shown when every content is a text; empty: refused
};

}  // namespace

Json messages_for_template(const Conversation& chat, const RenderMessages& render) { return Trial(chat, render).run(); }

}  // namespace sft::prepare
