// SPDX-License-Identifier: Apache-2.0
#include "unread_fields.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "sft/core/format.hpp"
#include "sft/core/log.hpp"
#include "sft/prepare/field_names.hpp"

namespace sft::apps {

namespace {

constexpr std::size_t max_shown_bytes = 60;

/// Words in the name of a field that decides on the loss.
constexpr std::array loss_words = {"loss",  "train",   "trained",    "trainable", "training",
                                   "mask",  "masks",   "masked",     "weight",    "weights",
                                   "learn", "learned", "supervised", "ignore",    "ignored"};
/// Masks of attention are all ones where a record is one document.
constexpr std::array harmless = {"attention_mask", "token_type_ids"};
constexpr std::array system_names = {"system_prompt", "system_message", "system_instruction", "system_instructions",
                                     "sys_prompt"};
constexpr std::array text_names = {"system", "history", "context", "role", "parent_id"};

template <class Names>
bool is_in(const Names& names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

/// Why a field matters and what to do; "" where it does not.
std::string advice_on(const std::string& path) {
  const std::size_t dot = path.rfind("].");
  const std::string name = dot == std::string::npos ? path : path.substr(dot + 2);
  if (path.starts_with("chat_template_kwargs.") || is_in(harmless, name)) return "";
  if (is_in(system_names, name)) {
    return fmt::format("it seems to belong to the text): --rename {}=system makes the system message of it", name);
  }
  if (is_in(text_names, name)) return "it may belong to the text): write it into the messages if it does";
  if (prepare::names_thoughts(name)) {
    return "it may hold thoughts that belong to the text): write them into the answer, or as 'reasoning_content' of "
           "its "
           "message, if they do";
  }
  if (std::ranges::any_of(prepare::words_of_name(name),
                          [](const std::string& word) { return is_in(loss_words, word); })) {
    return "it seems to say what is trained on): messages have 'weight', 'train' and 'loss' for that";
  }
  return "";
}

}  // namespace

void warn_of_unread_fields(const prepare::NameCounts& ignored) {
  for (const auto& [path, count] : ignored.by_name()) {
    const std::string advice = advice_on(path);
    if (advice.empty()) continue;
    log_warning(fmt::format("{} records or messages have a field '{}' that nothing reads ({}", count,
                            printable(path.substr(0, max_shown_bytes), false), advice));
  }
}

}  // namespace sft::apps
