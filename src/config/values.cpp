#include "config/values.hpp"

#include <array>
#include <charconv>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "config/rope_scaling.hpp"

namespace sft::config {

namespace {

template <class Number>
void read_number(const std::string& text, Number& value, const char* expectation) {
  Number number{};
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (error != std::errc{} || stop != end) throw std::invalid_argument(expectation);
  value = number;
}

template <class Number>
std::string write_number(Number number) {
  std::array<char, 32> text;
  const auto [end, error] = std::to_chars(text.data(), text.data() + text.size(), number);
  return {text.data(), end};
}

template <class Choice, std::size_t size>
using Names = std::array<std::pair<const char*, Choice>, size>;

constexpr Names<bool, 2> bool_names{{{"true", true}, {"false", false}}};
constexpr Names<Precision, 2> precision_names{{{"fp32", Precision::fp32}, {"bf16", Precision::bf16}}};
constexpr Names<Scheduler, 4> scheduler_names{{{"constant", Scheduler::constant},
                                               {"constant_with_warmup", Scheduler::constant_with_warmup},
                                               {"linear", Scheduler::linear},
                                               {"cosine", Scheduler::cosine}}};
constexpr Names<BackendChoice, 3> backend_names{
    {{"auto", BackendChoice::automatic}, {"cpu", BackendChoice::cpu}, {"cuda", BackendChoice::cuda}}};

template <class Choice, std::size_t size>
void read_choice(const std::string& text, Choice& value, const Names<Choice, size>& names) {
  std::string expectation = "one of";
  for (const auto& [name, choice] : names) {
    if (text == name) {
      value = choice;
      return;
    }
    expectation += std::string(expectation == "one of" ? " " : " | ") + name;
  }
  throw std::invalid_argument(expectation);
}

template <class Choice, std::size_t size>
std::string write_choice(Choice value, const Names<Choice, size>& names) {
  for (const auto& [name, choice] : names) {
    if (value == choice) return name;
  }
  throw std::logic_error("a choice without a name");
}

/// An .ini file cuts a value at '#' and at the end of its line, and trims it.
void refuse_what_an_ini_file_cannot_hold(const std::string& text) {
  if (text.find_first_of("#\n\r") != std::string::npos) {
    throw std::invalid_argument("a text on one line without '#', which starts a comment");
  }
}

}  // namespace

void read(const std::string& text, bool& value) { read_choice(text, value, bool_names); }
void read(const std::string& text, int& value) { read_number(text, value, "a whole number"); }
void read(const std::string& text, std::int64_t& value) { read_number(text, value, "a whole number"); }
void read(const std::string& text, std::uint64_t& value) { read_number(text, value, "a whole number of 0 or more"); }
void read(const std::string& text, double& value) {
  double number = 0;
  read_number(text, number, "a number");
  if (!std::isfinite(number)) throw std::invalid_argument("a finite number");
  value = number;
}
void read(const std::string& text, std::string& value) {
  refuse_what_an_ini_file_cannot_hold(text);
  value = text;
}
void read(const std::string& text, std::vector<std::string>& value) {
  refuse_what_an_ini_file_cannot_hold(text);
  value.clear();
  const char* separators = " \t,";
  for (std::size_t begin = text.find_first_not_of(separators); begin != std::string::npos;) {
    const std::size_t end = text.find_first_of(separators, begin);
    value.push_back(text.substr(begin, end - begin));
    begin = text.find_first_not_of(separators, end);
  }
}
void read(const std::string& text, Precision& value) { read_choice(text, value, precision_names); }
void read(const std::string& text, Scheduler& value) { read_choice(text, value, scheduler_names); }
void read(const std::string& text, BackendChoice& value) { read_choice(text, value, backend_names); }
void read(const std::string& text, RopeScaling& value) { value = parse_rope_scaling(text); }

std::string write(bool value) { return write_choice(value, bool_names); }
std::string write(int value) { return write_number(value); }
std::string write(std::int64_t value) { return write_number(value); }
std::string write(std::uint64_t value) { return write_number(value); }
std::string write(double value) { return write_number(value); }
std::string write(const std::string& value) { return value; }
std::string write(const std::vector<std::string>& value) {
  std::string text;
  for (const std::string& item : value) text += (text.empty() ? "" : " ") + item;
  return text;
}
std::string write(Precision value) { return write_choice(value, precision_names); }
std::string write(Scheduler value) { return write_choice(value, scheduler_names); }
std::string write(BackendChoice value) { return write_choice(value, backend_names); }
std::string write(const RopeScaling& value) { return to_json(value); }

}  // namespace sft::config
