// SPDX-License-Identifier: Apache-2.0
// The methods of strings: Python's str.

#include <fmt/core.h>
#include <algorithm>
#include <string>

#include "jinja/arguments.hpp"
#include "jinja/evaluator.hpp"
#include "jinja/operators.hpp"
#include "jinja/registry.hpp"
#include "jinja/strings.hpp"

namespace sft::jinja {

namespace {

const TextRef& self_text(const Value& self) { return *self.get<TextRef>(); }

/// A string argument of a method; as HTML if the method's string is.
TextRef text_argument(Evaluator& evaluator, const Value& self, const Value& argument) {
  const TextRef& text = require_text(argument, "a string method");
  return self_text(self)->is_markup ? escape_html(evaluator.heap(), text) : text;
}

template <Side side>
Value strip_side(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters parameters("strip", arguments, {"chars"});
  const Text* characters = parameters.has(0) ? require_text(*parameters[0], "strip()").get() : nullptr;
  return strip(evaluator.heap(), self_text(self), characters, side);
}

template <Case to>
Value to_case(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters none("the method", arguments, {});
  return change_case(evaluator.heap(), self_text(self), to);
}

Value call_capitalize(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters none("capitalize", arguments, {});
  return capitalize(evaluator.heap(), self_text(self));
}

Value call_split(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters parameters("split", arguments, {"sep", "maxsplit"});
  const Text* separator = parameters.has(0) ? require_text(*parameters[0], "split()").get() : nullptr;
  std::vector<Value> parts;
  for (TextRef& part : split(evaluator.heap(), self_text(self), separator, parameters.integer(1, -1))) {
    parts.emplace_back(std::move(part));
  }
  return evaluator.make_list(List::Kind::list, std::move(parts));
}

template <bool at_end>
Value call_affix(Evaluator&, const Value& self, const Arguments& arguments) {
  constexpr const char* name = at_end ? "endswith()" : "startswith()";
  const Parameters parameters(at_end ? "endswith" : "startswith", arguments, {"affix", "start", "end"}, 1);
  if (parameters.has(1) || parameters.has(2)) fail_unsupported(fmt::format("a part of the string for {}", name));
  if (parameters[0]->list() != nullptr) fail_unsupported(fmt::format("a tuple of strings for {}", name));
  const std::string& part = require_text(*parameters[0], name)->bytes;
  const std::string& bytes = self_text(self)->bytes;
  return at_end ? bytes.ends_with(part) : bytes.starts_with(part);
}

Value call_replace(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters parameters("replace", arguments, {"old", "new", "count"}, 2);
  const Text& old_part = *require_text(*parameters[0], "replace()");
  const TextRef new_part = text_argument(evaluator, self, *parameters[1]);
  return replace(evaluator.heap(), self_text(self), old_part, *new_part, parameters.integer(2, -1));
}

Value call_join(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  const Parameters parameters("join", arguments, {"iterable"}, 1);
  std::vector<TextRef> parts;
  for (const Value& item : items_of(evaluator.heap(), *parameters[0])) {
    if (item.text() == nullptr) {
      throw Failure(fmt::format("sequence item {}: expected str instance, {} found", parts.size(), type_name(item)));
    }
    parts.push_back(text_argument(evaluator, self, item));
  }
  return join(evaluator.heap(), *self_text(self), parts);
}

/// Python's str.format, of fields {}, {0} and {name}.
class Formatter {
 public:
  Formatter(Evaluator& evaluator, const Text& format, const Arguments& arguments)
      : evaluator_(evaluator), format_(format), arguments_(arguments), builder_(&evaluator.heap()) {}

  Value run() {
    if (format_.is_markup) fail_unsupported("format() of a string that is marked safe");
    const std::string& bytes = format_.bytes;
    for (std::size_t position = 0; position < bytes.size();) {
      const std::size_t brace = std::min(bytes.find_first_of("{}", position), bytes.size());
      builder_.append(format_, position, brace);
      position = brace + 1;
      if (brace == bytes.size()) break;
      if (position < bytes.size() && bytes[position] == bytes[brace]) {
        builder_.append(format_, position, position + 1);
        ++position;
        continue;
      }
      if (bytes[brace] == '}') throw Failure("Single '}' encountered in format string");
      const std::size_t end = bytes.find('}', position);
      if (end == std::string::npos) throw Failure("expected '}' before end of string");
      builder_.append(*to_text(evaluator_, value_of(bytes.substr(position, end - position))));
      position = end + 1;
    }
    return builder_.take();
  }

 private:
  const Value& value_of(const std::string& field) {
    if (field.find_first_of(".[:!{") != std::string::npos)
      fail_unsupported(fmt::format("the field {{{}}} of format()", field));
    const bool is_number = field.find_first_not_of("0123456789") == std::string::npos;
    if (is_number && field.size() < 10) {
      const std::size_t index = field.empty() ? num_used_++ : static_cast<std::size_t>(std::stoul(field));
      if (index >= arguments_.positional.size()) {
        throw Failure(fmt::format("Replacement index {} out of range for positional args tuple", index));
      }
      return arguments_.positional[index];
    }
    for (const auto& [known, value] : arguments_.named) {
      if (known == field) return value;
    }
    throw Failure(fmt::format("format() has no argument '{}'", field));
  }

  Evaluator& evaluator_;
  const Text& format_;
  const Arguments& arguments_;
  TextBuilder builder_;
  std::size_t num_used_ = 0;
};

Value call_format(Evaluator& evaluator, const Value& self, const Arguments& arguments) {
  return Formatter(evaluator, *self_text(self), arguments).run();
}

}  // namespace

const std::map<std::string_view, Method>& text_methods() {
  static const std::map<std::string_view, Method> all = {
      {"capitalize", call_capitalize},
      {"endswith", call_affix<true>},
      {"format", call_format},
      {"join", call_join},
      {"lower", to_case<Case::lower>},
      {"lstrip", strip_side<Side::left>},
      {"replace", call_replace},
      {"rstrip", strip_side<Side::right>},
      {"split", call_split},
      {"startswith", call_affix<false>},
      {"strip", strip_side<Side::both>},
      {"upper", to_case<Case::upper>},
  };
  return all;
}

}  // namespace sft::jinja
