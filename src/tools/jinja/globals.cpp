// SPDX-License-Identifier: Apache-2.0
// The functions that every template can call.

#include <fmt/core.h>
#include <array>
#include <ctime>
#include <map>
#include <string>

#include "jinja/arguments.hpp"
#include "jinja/evaluator.hpp"
#include "jinja/registry.hpp"

namespace sft::jinja {

namespace {

/// Items of a range that Jinja's sandbox allows.
constexpr std::int64_t max_range = 100000;
/// Beyond this the arithmetic of ranges could overflow.
constexpr std::int64_t max_bound = std::int64_t{1} << 60;

Value call_range(Evaluator&, const Value&, const Arguments& arguments) {
  const std::vector<Value>& given = arguments.positional;
  if (given.empty() || given.size() > 3 || !arguments.named.empty())
    throw Failure("range() takes one to three arguments");
  Range range;
  range.stop = require_integer(given[given.size() == 1 ? 0 : 1], "range()");
  if (given.size() > 1) range.start = require_integer(given[0], "range()");
  if (given.size() > 2) range.step = require_integer(given[2], "range()");
  if (range.step == 0) throw Failure("range() arg 3 must not be zero");
  for (const std::int64_t bound : {range.start, range.stop, range.step}) {
    if (bound > max_bound || bound < -max_bound) fail_unsupported("a range with so large a bound");
  }
  if (range.size() > max_range) {
    throw Failure(fmt::format("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", max_range));
  }
  return std::make_shared<const Range>(range);
}

Value call_namespace(Evaluator& evaluator, const Value&, const Arguments& arguments) {
  if (!arguments.positional.empty()) fail_unsupported("namespace() of another dict");
  Value space = evaluator.make_namespace();
  for (const auto& [name, value] : arguments.named) {
    if (name.starts_with('_')) throw Failure(fmt::format("a namespace cannot have the attribute '{}'", name));
    (*space.get<NamespaceRef>())->set(name, value);
  }
  return space;
}

Value call_raise_exception(Evaluator& evaluator, const Value&, const Arguments& arguments) {
  const Parameters parameters("raise_exception", arguments, {"message"}, 1);
  throw Failure(to_text(evaluator, *parameters[0])->bytes, "correct the conversation: its template refuses it");
}

Value call_strftime_now(Evaluator& evaluator, const Value&, const Arguments& arguments) {
  const Parameters parameters("strftime_now", arguments, {"format"}, 1);
  const std::string& format = require_text(*parameters[0], "strftime_now()")->bytes;
  const std::time_t seconds = std::chrono::system_clock::to_time_t(evaluator.now());
  std::tm local{};
  ::localtime_r(&seconds, &local);
  if (format.find('\0') != std::string::npos || format.find("%f") != std::string::npos) {
    fail_unsupported(fmt::format("the format '{}' of a date", format));
  }
  std::array<char, 1024> text{};
  // A blank more tells an empty date from one that does not fit.
  const std::size_t size = std::strftime(text.data(), text.size(), (format + " ").c_str(), &local);
  if (size == 0) fail_unsupported("so long a date");
  return make_text(&evaluator.heap(), std::string_view(text.data(), size - 1));
}

template <const char* const& name>
Value call_unsupported(Evaluator&, const Value&, const Arguments&) {
  fail_unsupported(fmt::format("the function '{}'", name));
}

constexpr const char* cycler = "cycler";
constexpr const char* dict = "dict";
constexpr const char* joiner = "joiner";
constexpr const char* lipsum = "lipsum";
constexpr const char* self = "self";

const std::map<std::string, Value, std::less<>>& globals() {
  static const std::map<std::string, Value, std::less<>> all = [] {
    const std::pair<const char*, Method> functions[] = {{"range", call_range},
                                                        {"namespace", call_namespace},
                                                        {"raise_exception", call_raise_exception},
                                                        {"strftime_now", call_strftime_now},
                                                        {cycler, call_unsupported<cycler>},
                                                        {dict, call_unsupported<dict>},
                                                        {joiner, call_unsupported<joiner>},
                                                        {lipsum, call_unsupported<lipsum>},
                                                        {self, call_unsupported<self>}};
    std::map<std::string, Value, std::less<>> made;
    for (const auto& [name, call] : functions) made[name] = std::make_shared<const Function>(Function{name, call, {}});
    return made;
  }();
  return all;
}

}  // namespace

const Value* find_global(std::string_view name) {
  const auto found = globals().find(name);
  return found == globals().end() ? nullptr : &found->second;
}

}  // namespace sft::jinja
