// SPDX-License-Identifier: Apache-2.0
#include "config/scheduler_kwargs.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <utility>
#include <vector>

#include "sft/config/values.hpp"
#include "sft/core/nearest.hpp"

namespace sft::config {

namespace {

using KwargsJson = nlohmann::ordered_json;

[[noreturn]] void refuse_kwarg(const std::string& expectation) { throw std::invalid_argument(expectation); }

template <class Choice, std::size_t size>
using WordsOf = std::array<std::pair<const char*, Choice>, size>;

constexpr WordsOf<Curve, 3> words_of(Curve) {
  return {{{"linear", Curve::linear}, {"cosine", Curve::cosine}, {"1-sqrt", Curve::one_minus_sqrt}}};
}
constexpr WordsOf<Better, 2> words_of(Better) { return {{{"min", Better::min}, {"max", Better::max}}}; }
constexpr WordsOf<ThresholdMode, 2> words_of(ThresholdMode) {
  return {{{"rel", ThresholdMode::rel}, {"abs", ThresholdMode::abs}}};
}

/// Digits with at most one point: what TRL takes for a number in a text.
bool is_number_text(const KwargsJson& json) {
  if (!json.is_string()) return false;
  const auto& text = json.get_ref<const std::string&>();
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return std::ranges::any_of(text, is_digit) && std::ranges::count(text, '.') <= 1 &&
         std::ranges::all_of(text, [&](char c) { return is_digit(c) || c == '.'; });
}

std::optional<double> number_in(const KwargsJson& json) {
  if (json.is_number()) return json.get<double>();
  if (!is_number_text(json)) return std::nullopt;
  double number = 0.0;
  read(json.get<std::string>(), number);
  return number;
}

void read_kwarg(const KwargsJson& json, const std::string& name, std::optional<double>& value) {
  value = number_in(json);
  if (!value || !(*value >= 0) || !std::isfinite(*value))
    refuse_kwarg(fmt::format("a number of 0 or more as `{}`", name));
}

void read_kwarg(const KwargsJson& json, const std::string& name, std::optional<std::int64_t>& value) {
  constexpr double most = 1LL << 40;
  const std::optional<double> number = number_in(json);
  if (!number || !(*number >= 0 && *number <= most) || *number != std::trunc(*number)) {
    refuse_kwarg(fmt::format("a whole number of 0 or more as `{}`", name));
  }
  value = static_cast<std::int64_t>(*number);
}

template <class Choice>
void read_kwarg(const KwargsJson& json, const std::string& name, std::optional<Choice>& value) {
  std::vector<std::string> words;
  for (const auto& [word, choice] : words_of(Choice{})) {
    if (json == word) value = choice;
    words.push_back(fmt::format("\"{}\"", word));
  }
  if (!value) refuse_kwarg(fmt::format("{} as `{}`", fmt::join(words, " | "), name));
}

template <class Number>
Number written_kwarg(Number value) requires std::is_arithmetic_v<Number> {
  return value;
}
template <class Choice>
std::string written_kwarg(Choice value) requires std::is_enum_v<Choice> {
  const auto words = words_of(value);
  return std::ranges::find(words, value, [](const auto& word) { return word.second; })->first;
}

void refuse_unknown_kwargs(const KwargsJson& object) {
  std::vector<std::string> known;
  for_each_kwarg(SchedulerKwargs{}, [&](const char* name, const auto&) { known.emplace_back(name); });
  for (const auto& [name, value] : object.items()) {
    if (std::ranges::find(known, name) != known.end()) continue;
    const std::string guess = nearest(name, known);
    refuse_kwarg(fmt::format("no `{}`, which no schedule has{}", name,
                             guess.empty() ? std::string() : fmt::format("; did you mean `{}`?", guess)));
  }
}

}  // namespace

SchedulerKwargs parse_scheduler_kwargs(const std::string& text) {
  SchedulerKwargs kwargs;
  if (is_none(text)) return kwargs;
  const KwargsJson object = KwargsJson::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) refuse_kwarg(R"(a JSON object on one line, such as {"num_cycles": 2}, or nothing)");
  refuse_unknown_kwargs(object);
  for_each_kwarg(kwargs, [&](const char* name, auto& value) {
    const auto field = object.find(name);
    if (field != object.end() && !field->is_null()) read_kwarg(*field, name, value);
  });
  if (kwargs.timescale && *kwargs.timescale == 0) refuse_kwarg("a number above 0 as `timescale`");
  if (kwargs.factor && *kwargs.factor >= 1) refuse_kwarg("a number below 1 as `factor`");
  return kwargs;
}

std::string to_json(const SchedulerKwargs& kwargs) {
  KwargsJson object;
  for_each_kwarg(kwargs, [&](const char* name, const auto& value) {
    if (value) object[name] = written_kwarg(*value);
  });
  return object.is_null() ? std::string() : object.dump();
}

}  // namespace sft::config
