// SPDX-License-Identifier: Apache-2.0
#include "sft/config/values.hpp"

#include <fmt/format.h>
#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "config/choice_names.hpp"
#include "config/quoting.hpp"
#include "config/scheduler_kwargs.hpp"
#include "sft/config/rope_scaling.hpp"
#include "sft/core/ensure.hpp"

namespace sft::config {

namespace {

/// The number that is all of `text`.
template <class Number>
std::optional<Number> parse_number(const std::string& text) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

/// The digits without a `+` in front and without the `_` between two of them, as Python and YAML 1.1 write numbers.
std::string plain_digits(const std::string& written) {
  const auto is_digit = [&](std::size_t i) { return std::isxdigit(static_cast<unsigned char>(written[i])) != 0; };
  std::string text;
  for (std::size_t i = written.starts_with('+') ? 1 : 0; i < written.size(); ++i) {
    const bool separates = written[i] == '_' && i > 0 && i + 1 < written.size() && is_digit(i - 1) && is_digit(i + 1);
    if (!separates) text += written[i];
  }
  return text;
}

/// The whole number of a text such as 0x10, 0o17 or 0b11.
template <class Integer>
std::optional<Integer> parse_prefixed(const std::string& text) {
  constexpr std::array<std::pair<std::string_view, int>, 3> bases{{{"0x", 16}, {"0o", 8}, {"0b", 2}}};
  for (const auto& [prefix, base] : bases) {
    if (!text.starts_with(prefix)) continue;
    Integer number{};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + prefix.size(), end, number, base);
    return error == std::errc{} && stop == end ? std::optional(number) : std::nullopt;
  }
  return std::nullopt;
}

/// A whole number as Python, JSON and YAML 1.1 write it: 2048, 2_048, 0x800, and 2048.0 or 2e3 where a double holds it
/// exactly.
template <class Integer>
void read_integer(const std::string& written, Integer& value, const char* expectation) {
  const std::string text = plain_digits(unquoted(written));
  auto whole = parse_number<Integer>(text);
  if (!whole) whole = parse_prefixed<Integer>(text);
  if (whole) {
    value = *whole;
    return;
  }
  constexpr double last_exact = 9007199254740992.0;  // 2^53
  const auto number = text.find_first_of(".eE") == std::string::npos ? std::nullopt : parse_number<double>(text);
  const bool is_whole = number && std::abs(*number) <= last_exact && *number == std::trunc(*number);
  if (!is_whole || !std::in_range<Integer>(static_cast<std::int64_t>(*number))) {
    const bool is_too_large = !text.empty() && text.find_first_not_of("0123456789") == std::string::npos;
    const std::string more = is_too_large ? fmt::format(", of at most {} bits", 8 * sizeof(Integer)) : "";
    throw std::invalid_argument(expectation + more);
  }
  value = static_cast<Integer>(*number);
}

template <class Number>
std::string write_number(Number number) {
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end};
}

/// The reporters that a word of report_to names: one, or all.
std::vector<Reporter> reporters_of(const std::string& word) {
  std::vector<Reporter> reporters;
  for (const auto& [name, reporter] : reporter_names) {
    if (word == "all" || word == name) reporters.push_back(reporter);
  }
  if (!reporters.empty()) return reporters;
  throw std::invalid_argument(
      fmt::format("none, all, or some of {}: nothing writes for {}, and metrics.jsonl has every number for a reader of "
                  "your own",
                  fmt::join(texts_of(reporter_names), " | "), word));
}

std::string lower(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

}  // namespace

std::optional<bool> truth_of(const std::string& text) {
  const std::string word = lower(text);
  for (const auto& [name, truth] : bool_synonyms) {
    if (word == name) return truth;
  }
  return std::nullopt;
}

bool is_none(const std::string& text) {
  const std::string word = lower(text);
  return word.empty() || word == "none" || word == "null" || word == "no" || word == "false";
}

bool is_null(const std::string& text) {
  const std::string word = lower(text);
  return word == "none" || word == "null";
}

void read(const std::string& text, bool& value) {
  const std::optional<bool> truth = truth_of(unquoted(text));
  if (!truth) throw std::invalid_argument("true or false");
  value = *truth;
}
void read(const std::string& text, int& value) { read_integer(text, value, "a whole number"); }
void read(const std::string& text, std::int64_t& value) { read_integer(text, value, "a whole number"); }
void read(const std::string& text, std::uint64_t& value) { read_integer(text, value, "a whole number of 0 or more"); }
void read(const std::string& text, double& value) {
  const std::optional<double> number = parse_number<double>(plain_digits(unquoted(text)));
  if (!number) throw std::invalid_argument("a number");
  if (!std::isfinite(*number)) throw std::invalid_argument("a finite number");
  value = *number;
}
void read(const std::string& text, std::string& value) { value = expanded(text); }
void read(const std::string& text, std::vector<std::string>& value) {
  const auto list = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool is_json = list.is_array() && std::ranges::all_of(list, [](const auto& item) { return item.is_string(); });
  if (!is_json) {
    value = is_none(text) ? std::vector<std::string>() : expanded_items(text);
    return;
  }
  value.clear();
  for (const auto& item : list) value.push_back(expanded(item.get<std::string>()));
}
void read(const std::string& text, std::vector<int>& value) {
  value.clear();
  for (const std::string& item : expanded_items(text)) read_integer(item, value.emplace_back(), "whole numbers");
}
void read(const std::string& text, std::vector<std::int64_t>& value) {
  value.clear();
  for (const std::string& item : expanded_items(text)) {
    read_integer(item, value.emplace_back(), "whole numbers, separated by spaces or commas");
    if (value.back() < 0) throw std::invalid_argument("whole numbers from 0");
  }
}
void read(const std::string& text, ModuleNumbers& value) {
  value.clear();
  const std::string object_text = unquoted(text);
  if (is_none(object_text)) return;
  const auto object = nlohmann::ordered_json::parse(object_text, nullptr, /*allow_exceptions=*/false);
  if (!object.is_object()) {
    throw std::invalid_argument(R"(a JSON object on one line, such as {"q_proj": 8, "layers.0.mlp.down_proj": 4})");
  }
  for (const auto& [pattern, number] : object.items()) {
    if (!number.is_number()) throw std::invalid_argument(fmt::format("a number for `{}`", pattern));
    value.emplace_back(pattern, number.get<double>());
  }
}
void read(const std::string& text, AdapterInit& value) {
  const std::string word = unquoted(text);
  value = {};
  if (const std::optional<bool> truth = truth_of(word)) {
    value.kind = *truth ? LoraInit::zero_b : LoraInit::linear;
    return;
  }
  if (word.starts_with(pissa_iterations)) {
    value = {LoraInit::pissa, parse_number<std::int64_t>(word.substr(pissa_iterations.size()))};
    if (!value.iterations || *value.iterations < 0) {
      throw std::invalid_argument("a whole number of iterations, as in pissa_niter_16");
    }
    return;
  }
  read_choice(word, value.kind, lora_init_names);
}
void read(const std::string& text, FourBitType& value) { read_choice(text, value, four_bit_names); }
void read(const std::string& text, Precision& value) { read_choice(text, value, precision_names); }
void read(const std::string& text, Fp8& value) { read_choice(text, value, fp8_names); }
void read(const std::string& text, ActivationCheckpointing& value) {
  const std::string word = unquoted(text);
  if (is_none(word) || truth_of(word) == false) {
    value = ActivationCheckpointing::none;
  } else if (truth_of(word) == true) {
    value = ActivationCheckpointing::full;
  } else {
    read_choice(text, value, checkpointing_names);
  }
}
void read(const std::string& text, Offload& value) {
  const std::string word = unquoted(text);
  if (is_none(word)) {
    value = Offload::none;
  } else {
    read_choice(word == "cpu" ? "host" : word, value, offload_names);  // cpu: DeepSpeed's word for it
  }
}
void read(const std::string& text, ActivationPlace& value) { read_choice(text, value, activation_place_names); }
void read(const std::string& text, DType& value) { read_choice(text, value, dtype_names); }
void read(const std::string& text, OptimizerKind& value) {
  for (const OptimizerName& optimizer : optimizer_names) {
    for (const char* synonym : optimizer.synonyms) {
      if (synonym == nullptr || unquoted(text) != synonym) continue;
      value = optimizer.kind;
      return;
    }
  }
  for (const OtherOptimizers& others : other_optimizers) {
    const std::string_view names = others.names;
    const std::string word = fmt::format(" {} ", unquoted(text));
    if (names.find(word) != std::string_view::npos) throw std::invalid_argument(others.what_to_write);
  }
  read_choice(text, value, optimizer_choices);
}
void read(const std::string& text, LrAdjustment& value) {
  if (unquoted(text) == "spectral_unclamped") {
    throw std::invalid_argument(
        "another rule: none lowers the rate of matrices with more columns than rows; write original, which is the same "
        "for "
        "all others, or match_rms_adamw");
  }
  read_choice(text, value, adjustment_names);
}
void read(const std::string& text, Scheduler& value) {
  if (unquoted(text) == "greedy") {
    throw std::invalid_argument(
        "another schedule: sft has none that raises the rate again, as greedy does; reduce_lr_on_plateau lowers it by "
        "eval_loss");
  }
  read_choice(text, value, scheduler_names);
}
void read(const std::string& text, SchedulerKwargs& value) { value = parse_scheduler_kwargs(unquoted(text)); }
void read(const std::string& text, BackendChoice& value) { read_choice(text, value, backend_names); }
void read(const std::string& text, CommChoice& value) { read_choice(text, value, comm_names); }
void read(const std::string& text, AttentionChoice& value) { read_choice(text, value, attention_names); }
void read(const std::string& text, SpMethod& value) { read_choice(text, value, sp_method_names); }
void read(const std::string& text, RowOrder& value) { read_choice(text, value, row_order_names); }
void read(const std::string& text, EvalStrategy& value) {
  read_choice(is_none(unquoted(text)) ? "no" : text, value, eval_strategy_names);
}
void read(const std::string& text, SaveStrategy& value) {
  read_choice(is_none(unquoted(text)) ? "no" : text, value, save_strategy_names);
}
void read(const std::string& text, std::vector<Reporter>& value) {
  value.clear();
  std::string items = text;
  std::erase_if(items, [](char c) { return c == '[' || c == ']'; });  // a list as YAML and JSON write it
  for (const std::string& item : expanded_items(items)) {
    if (is_none(item)) continue;
    for (const Reporter reporter : reporters_of(item)) {
      if (std::ranges::find(value, reporter) == value.end()) value.push_back(reporter);
    }
  }
}
void read(const std::string& text, EvalMetric& value) {
  const std::string word = unquoted(text);
  constexpr std::string_view prefix = "eval_";
  read_choice(word.starts_with(prefix) ? word.substr(prefix.size()) : word, value, eval_metric_names);
}
void read(const std::string& text, LossType& value) { read_choice(text, value, loss_type_synonyms); }
void read(const std::string& text, NanPolicy& value) { read_choice(text, value, nan_policy_names); }
void read(const std::string& text, ExpertForm& value) { read_choice(text, value, expert_form_names); }
void read(const std::string& text, BlockNorms& value) { read_choice(text, value, block_norms_names); }
void read(const std::string& text, Activation& value) { read_choice(text, value, activation_names); }
void read(const std::string& text, ScoringFunc& value) { read_choice(text, value, scoring_names); }
void read(const std::string& text, RopeScaling& value) { value = parse_rope_scaling(unquoted(text)); }
void read(const std::string& text, StepRange& value) {
  const std::string word = unquoted(text);
  if (is_none(word)) {
    value = {};
    return;
  }
  const std::size_t dash = word.find('-');
  const auto first = parse_number<std::int64_t>(word.substr(0, dash));
  const auto last = dash == std::string::npos ? first : parse_number<std::int64_t>(word.substr(dash + 1));
  if (!first || !last || *first < 1 || *last < *first) {
    throw std::invalid_argument("none, or steps counted from 1, such as 3 or 3-5");
  }
  value = {*first, *last};
}

std::vector<std::string> choices(bool) { return texts_of(bool_names); }
std::vector<std::string> choices(AdapterInit) { return texts_of(lora_init_names); }
std::vector<std::string> choices(FourBitType) { return texts_of(four_bit_names); }
std::vector<std::string> choices(Precision) { return texts_of(precision_names); }
std::vector<std::string> choices(Fp8) { return texts_of(fp8_names); }
std::vector<std::string> choices(ActivationCheckpointing) { return texts_of(checkpointing_names); }
std::vector<std::string> choices(Offload) { return texts_of(offload_names); }
std::vector<std::string> choices(ActivationPlace) { return texts_of(activation_place_names); }
std::vector<std::string> choices(DType) { return texts_of(dtype_names); }
std::vector<std::string> choices(OptimizerKind) { return texts_of(optimizer_choices); }
std::vector<std::string> choices(LrAdjustment) { return texts_of(adjustment_names); }
std::vector<std::string> choices(Scheduler) { return texts_of(scheduler_names); }
std::vector<std::string> choices(BackendChoice) { return texts_of(backend_names); }
std::vector<std::string> choices(CommChoice) { return texts_of(comm_names); }
std::vector<std::string> choices(AttentionChoice) { return texts_of(attention_names); }
std::vector<std::string> choices(SpMethod) { return texts_of(sp_method_names); }
std::vector<std::string> choices(RowOrder) { return texts_of(row_order_names); }
std::vector<std::string> choices(EvalStrategy) { return texts_of(eval_strategy_names); }
std::vector<std::string> choices(SaveStrategy) { return texts_of(save_strategy_names); }
std::vector<std::string> choices(EvalMetric) { return texts_of(eval_metric_names); }
std::vector<std::string> choices(LossType) { return texts_of(loss_type_names); }
std::vector<std::string> choices(NanPolicy) { return texts_of(nan_policy_names); }
std::vector<std::string> choices(ExpertForm) { return texts_of(expert_form_names); }
std::vector<std::string> choices(BlockNorms) { return texts_of(block_norms_names); }
std::vector<std::string> choices(Activation) { return texts_of(activation_names); }
std::vector<std::string> choices(ScoringFunc) { return texts_of(scoring_names); }

std::string write(bool value) { return write_choice(value, bool_names); }
std::string write(int value) { return write_number(value); }
std::string write(std::int64_t value) { return write_number(value); }
std::string write(std::uint64_t value) { return write_number(value); }
std::string write(double value) { return write_number(value); }
std::string write(const std::string& value) { return quoted(value); }
std::string write(const std::vector<std::string>& value) {
  std::vector<std::string> items;
  for (const std::string& item : value) items.push_back(quoted_item(item));
  return fmt::format("{}", fmt::join(items, " "));
}
std::string write(const std::vector<int>& value) { return fmt::format("{}", fmt::join(value, " ")); }
std::string write(const std::vector<std::int64_t>& value) { return fmt::format("{}", fmt::join(value, " ")); }
std::string write(const ModuleNumbers& value) {
  nlohmann::ordered_json object;
  for (const auto& [pattern, number] : value) {
    if (number == std::trunc(number)) {
      object[pattern] = static_cast<std::int64_t>(number);
    } else {
      object[pattern] = number;
    }
  }
  return value.empty() ? "" : object.dump();
}
std::string write(const AdapterInit& value) {
  if (value.iterations) return fmt::format("{}{}", pissa_iterations, *value.iterations);
  return write_choice(value.kind, lora_init_names);
}
std::string write(FourBitType value) { return write_choice(value, four_bit_names); }
std::string write(Precision value) { return write_choice(value, precision_names); }
std::string write(Fp8 value) { return write_choice(value, fp8_names); }
std::string write(ActivationCheckpointing value) { return write_choice(value, checkpointing_names); }
std::string write(Offload value) { return write_choice(value, offload_names); }
std::string write(ActivationPlace value) { return write_choice(value, activation_place_names); }
std::string write(DType value) { return write_choice(value, dtype_names); }
std::string write(OptimizerKind value) { return write_choice(value, optimizer_choices); }
std::string write(LrAdjustment value) { return write_choice(value, adjustment_names); }
std::string write(Scheduler value) { return write_choice(value, scheduler_names); }
std::string write(const SchedulerKwargs& value) { return to_json(value); }
std::string write(BackendChoice value) { return write_choice(value, backend_names); }
std::string write(CommChoice value) { return write_choice(value, comm_names); }
std::string write(AttentionChoice value) { return write_choice(value, attention_names); }
std::string write(SpMethod value) { return write_choice(value, sp_method_names); }
std::string write(RowOrder value) { return write_choice(value, row_order_names); }
std::string write(EvalStrategy value) { return write_choice(value, eval_strategy_names); }
std::string write(SaveStrategy value) { return write_choice(value, save_strategy_names); }
std::string write(const std::vector<Reporter>& value) {
  std::vector<std::string> names;
  for (const Reporter reporter : value) names.push_back(write_choice(reporter, reporter_names));
  return names.empty() ? "none" : fmt::format("{}", fmt::join(names, " "));
}
std::string write(EvalMetric value) { return write_choice(value, eval_metric_names); }
std::string write(LossType value) { return write_choice(value, loss_type_names); }
std::string write(NanPolicy value) { return write_choice(value, nan_policy_names); }
std::string write(ExpertForm value) { return write_choice(value, expert_form_names); }
std::string write(BlockNorms value) { return write_choice(value, block_norms_names); }
std::string write(Activation value) { return write_choice(value, activation_names); }
std::string write(ScoringFunc value) { return write_choice(value, scoring_names); }
std::string write(const RopeScaling& value) { return to_json(value); }
std::string write(const StepRange& value) {
  if (value.is_empty()) return "none";
  return value.last == value.first ? write(value.first) : fmt::format("{}-{}", value.first, value.last);
}

}  // namespace sft::config
