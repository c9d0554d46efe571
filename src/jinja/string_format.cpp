// SPDX-License-Identifier: Apache-2.0
#include "jinja/string_format.hpp"

#include <algorithm>
#include <cmath>
#include <string>

#include "jinja/evaluator.hpp"
#include "jinja/format_specification.hpp"
#include "jinja/operators.hpp"
#include "jinja/printing.hpp"
#include "jinja/strings.hpp"

namespace sft::jinja {

namespace {

class PercentFormatter {
 public:
  PercentFormatter(Evaluator& evaluator, const TextRef& format, const Value& values)
      : evaluator_(evaluator), format_(format), values_(values), builder_(&evaluator.heap()) {
    const List* list = values.list();
    is_tuple_ = list != nullptr && list->kind == List::Kind::tuple;
  }

  Value run() {
    const std::string& bytes = format_->bytes;
    std::size_t done = 0;
    while (true) {
      const std::size_t percent = bytes.find('%', done);
      builder_.append(*format_, done, std::min(percent, bytes.size()));
      if (percent == std::string::npos) break;
      done = percent + 1;
      read_field(done);
    }
    const bool is_mapping = values_.dict() != nullptr || (values_.list() != nullptr && !is_tuple_);
    const std::size_t available = is_tuple_ ? values_.list()->items.size() : 1;
    if (num_used_ < available && !is_mapping && !has_names_) {
      throw Failure("not all arguments converted during string formatting");
    }
    return builder_.take(format_->is_markup);
  }

 private:
  [[nodiscard]] char at(std::size_t position) const {
    if (position >= format_->bytes.size()) throw Failure("incomplete format");
    return format_->bytes[position];
  }

  Value next_value() {
    const std::size_t available = is_tuple_ ? values_.list()->items.size() : 1;
    if (num_used_ >= available) throw Failure("not enough arguments for format string");
    const std::size_t index = num_used_++;
    return is_tuple_ ? values_.list()->items[index] : values_;
  }

  Value named_value(std::size_t& position) {
    const std::size_t end = format_->bytes.find(')', position);
    if (end == std::string::npos) throw Failure("incomplete format key");
    if (values_.dict() == nullptr) throw Failure("format requires a mapping");
    const std::string name = format_->bytes.substr(position + 1, end - position - 1);
    const Value* value = values_.dict()->find(std::string_view(name));
    if (value == nullptr) throw Failure("the format's key '" + name + "' is not there");
    has_names_ = true;
    position = end + 1;
    return *value;
  }

  void read_flags(std::size_t& position, Specification& specification) const {
    for (;; ++position) {
      const char flag = at(position);
      if (flag == '-') {
        specification.alignment = '<';
      } else if (flag == '+') {
        specification.sign = '+';
      } else if (flag == ' ') {
        if (specification.sign != '+') specification.sign = ' ';
      } else if (flag == '#') {
        specification.is_alternate = true;
      } else if (flag == '0') {
        if (specification.alignment == '\0') specification.alignment = '=';
      } else {
        return;
      }
    }
  }

  void read_field(std::size_t& position) {
    if (at(position) == '%') {
      builder_.append("%");
      ++position;
      return;
    }
    std::optional<Value> value;
    if (at(position) == '(') value = named_value(position);
    Specification specification;
    read_flags(position, specification);
    if (at(position) == '*') fail_unsupported("a width from an argument (%*)");
    specification.width = read_number(format_->bytes, position).value_or(0);
    if (at(position) == '.') {
      ++position;
      specification.precision = read_number(format_->bytes, position).value_or(0);
    }
    specification.kind = at(position++);
    append(value ? *value : next_value(), specification);
  }

  void append(const Value& value, Specification specification) {
    Heap& heap = evaluator_.heap();
    if (specification.kind == 's' || specification.kind == 'r') {
      const TextRef text = specification.kind == 's' ? to_text(evaluator_, value) : to_repr(evaluator_, value);
      const TextRef finished = format_->is_markup ? escape_html(heap, text) : text;
      if (specification.alignment == '=') specification.alignment = '>';
      return builder_.append(*align(heap, shorten(heap, finished, specification), specification, '>'));
    }
    if (specification.kind == 'c') return append_character(value, specification);
    if (specification.kind == 'i' || specification.kind == 'u') specification.kind = 'd';
    static constexpr std::string_view kinds = "dxXofFeEgG";
    if (kinds.find(specification.kind) == std::string_view::npos) {
      throw Failure(std::string("unsupported format character '") + specification.kind + "'");
    }
    if (value.is_undefined()) throw Failure(undefined_message(value));
    if (!as_number(value))
      throw Failure(std::string("%") + specification.kind + " format: a real number is required, not " +
                    type_name(value));
    if (specification.alignment == '=') specification.fill = "0";
    append_number(value, specification);
  }

  void append_number(const Value& value, const Specification& specification) {
    const bool is_integer_kind = std::string_view("dxXo").find(specification.kind) != std::string_view::npos;
    Value number = value;
    if (is_integer_kind && value.get<double>() != nullptr) {
      if (specification.kind != 'd')
        throw Failure(std::string("%") + specification.kind + " format: an integer is required, not float");
      if (!(std::fabs(*value.get<double>()) < 9e18)) fail_unsupported("an integer beyond 64 bits");
      number = static_cast<std::int64_t>(*value.get<double>());
    }
    const std::string text = number_text(number, specification);
    builder_.append(*align(evaluator_.heap(), make_text(&evaluator_.heap(), text), specification, '>'));
  }

  void append_character(const Value& value, const Specification& specification) {
    TextRef character;
    if (const auto code = as_integer(value)) {
      if (*code < 0 || *code > 0x10FFFF) throw Failure("%c arg not in range(0x110000)");
      std::string bytes;
      append_code_point(bytes, static_cast<CodePoint>(*code));
      character = make_text(&evaluator_.heap(), bytes);
    } else {
      character = require_text(value, "%c");
      if (count_characters(character->bytes) != 1) throw Failure("%c requires int or char");
    }
    builder_.append(*align(evaluator_.heap(), character, specification, '>'));
  }

  Evaluator& evaluator_;
  const TextRef& format_;
  const Value& values_;
  TextBuilder builder_;
  bool is_tuple_ = false;
  bool has_names_ = false;
  std::size_t num_used_ = 0;
};

class BraceFormatter {
 public:
  BraceFormatter(Evaluator& evaluator, const TextRef& format, const Arguments& arguments)
      : evaluator_(evaluator), format_(format), arguments_(arguments), builder_(&evaluator.heap()) {}

  Value run() {
    if (format_->is_markup) fail_unsupported("format() of a string that is marked safe");
    const std::string& bytes = format_->bytes;
    for (std::size_t position = 0; position < bytes.size();) {
      const std::size_t brace = std::min(bytes.find_first_of("{}", position), bytes.size());
      builder_.append(*format_, position, brace);
      position = brace + 1;
      if (brace == bytes.size()) break;
      if (position < bytes.size() && bytes[position] == bytes[brace]) {
        builder_.append(*format_, position, position + 1);
        ++position;
        continue;
      }
      if (bytes[brace] == '}') throw Failure("Single '}' encountered in format string");
      const std::size_t end = bytes.find('}', position);
      if (end == std::string::npos) throw Failure("expected '}' before end of string");
      append_field(bytes.substr(position, end - position));
      position = end + 1;
    }
    return builder_.take();
  }

 private:
  void append_field(const std::string& field) {
    if (field.find('{') != std::string::npos) fail_unsupported("a field inside a field of format()");
    const std::size_t colon = std::min(field.find(':'), field.size());
    const std::size_t mark = std::min(field.substr(0, colon).find('!'), colon);
    Value value = value_of(field.substr(0, mark));
    if (mark < colon) {
      const std::string conversion = field.substr(mark + 1, colon - mark - 1);
      if (conversion != "s" && conversion != "r") fail_unsupported("the conversion '" + conversion + "' of format()");
      value = conversion == "s" ? to_text(evaluator_, value) : to_repr(evaluator_, value);
    }
    append(value, colon < field.size() ? field.substr(colon + 1) : std::string());
  }

  Value value_of(const std::string& path) {
    const std::size_t end = std::min(path.find_first_of(".["), path.size());
    Value value = argument(path.substr(0, end));
    for (std::size_t position = end; position < path.size();) {
      if (path[position] == '.') {
        const std::size_t stop = std::min(path.find_first_of(".[", position + 1), path.size());
        value = evaluator_.get_attribute(value, path.substr(position + 1, stop - position - 1));
        position = stop;
      } else {
        const std::size_t stop = path.find(']', position);
        if (path[position] != '[' || stop == std::string::npos) throw Failure("a field of format() is malformed");
        const std::string key = path.substr(position + 1, stop - position - 1);
        std::size_t digits = 0;
        const auto index = read_number(key, digits);
        const bool is_index = index && digits == key.size();
        value = evaluator_.get_item(value, is_index ? Value(*index) : Value(make_text(&evaluator_.heap(), key)));
        position = stop + 1;
      }
    }
    return value;
  }

  Value argument(const std::string& name) {
    std::size_t digits = 0;
    const auto number = read_number(name, digits);
    if (name.empty() || (number && digits == name.size())) {
      const std::size_t index = name.empty() ? num_used_++ : static_cast<std::size_t>(*number);
      if (index >= arguments_.positional.size()) {
        throw Failure("Replacement index " + std::to_string(index) + " out of range for positional args tuple");
      }
      return arguments_.positional[index];
    }
    for (const auto& [known, value] : arguments_.named) {
      if (known == name) return value;
    }
    throw Failure("format() has no argument '" + name + "'");
  }

  static Specification parse(const std::string& text) {
    Specification specification;
    std::size_t position = 0;
    const auto is_alignment = [&](std::size_t i) {
      return i < text.size() && std::string_view("<>^=").find(text[i]) != std::string_view::npos;
    };
    std::size_t behind_fill = 0;
    if (!text.empty()) (void)next_code_point(text, behind_fill);
    if (behind_fill > 0 && is_alignment(behind_fill)) {
      specification.fill = text.substr(0, behind_fill);
      specification.alignment = text[behind_fill];
      position = behind_fill + 1;
    } else if (is_alignment(0)) {
      specification.alignment = text[0];
      position = 1;
    }
    const auto skip = [&](char c) { return position < text.size() && text[position] == c && (++position, true); };
    if (skip('+'))
      specification.sign = '+';
    else if (skip(' '))
      specification.sign = ' ';
    else
      (void)skip('-');
    if (skip('0') && specification.alignment == '\0') {
      specification.alignment = '=';
      specification.fill = "0";
    }
    specification.width = read_number(text, position).value_or(0);
    specification.has_comma = skip(',');
    if (skip('.')) {
      specification.precision = read_number(text, position);
      if (!specification.precision) throw Failure("Format specifier missing precision");
    }
    if (position < text.size()) specification.kind = text[position++];
    if (position < text.size()) fail_unsupported("the specification '" + text + "' of format()");
    return specification;
  }

  void append(const Value& value, const std::string& text) {
    if (text.empty()) return builder_.append(*to_text(evaluator_, value));
    Heap& heap = evaluator_.heap();
    Specification specification = parse(text);
    const auto fail = [&] { fail_unsupported("the specification '" + text + "' of format() for " + type_name(value)); };
    if (const auto* string = value.get<TextRef>()) {
      const bool is_plain = (specification.kind == '\0' || specification.kind == 's') &&
                            specification.alignment != '=' && !specification.has_comma && specification.sign == '-';
      if (!is_plain) fail();
      return builder_.append(*align(heap, shorten(heap, *string, specification), specification, '<'));
    }
    const bool is_integer = value.get<std::int64_t>() != nullptr;
    if (is_integer && specification.kind == '\0') specification.kind = 'd';
    const bool is_known = (is_integer && specification.kind == 'd' && !specification.precision) ||
                          (as_number(value) && specification.kind == 'f');
    if (!is_known) fail();
    builder_.append(*align(heap, make_text(&heap, number_text(value, specification)), specification, '>'));
  }

  Evaluator& evaluator_;
  const TextRef& format_;
  const Arguments& arguments_;
  TextBuilder builder_;
  std::size_t num_used_ = 0;
};

}  // namespace

Value format_percent(Evaluator& evaluator, const TextRef& format, const Value& values) {
  return PercentFormatter(evaluator, format, values).run();
}

Value format_braces(Evaluator& evaluator, const TextRef& format, const Arguments& arguments) {
  return BraceFormatter(evaluator, format, arguments).run();
}

}  // namespace sft::jinja
