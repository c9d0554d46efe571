// SPDX-License-Identifier: Apache-2.0
#include "prepare/json_builder.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <string_view>
#include <utility>

#include "prepare/python_numbers.hpp"

namespace sft::prepare {

namespace {

constexpr std::size_t max_depth = 512;          // values are copied and freed by calls within calls
constexpr std::size_t max_reason_size = 200;    // a parser quotes what it read last, which may be a whole book
constexpr std::size_t max_keys_looked_at = 16;  // of more a set is made

/// "[json.exception.parse_error.101] parse error at line 1, column 8: reason" -> "column 8: reason", and of other
/// exceptions the reason; cut where it is long.
std::string reason_of(const JsonBuilder::Json::exception& error) {
  std::string reason = error.what();
  for (const char* before_it : {"] ", "parse error at line 1, ", "parse error at "}) {
    if (const auto at = reason.find(before_it); at < 40) reason.erase(0, at + std::string_view(before_it).size());
  }
  if (reason.size() > max_reason_size) reason = reason.substr(0, max_reason_size) + " ...";
  return reason;
}

}  // namespace

bool JsonBuilder::null() { return add(nullptr); }
bool JsonBuilder::boolean(bool value) { return add(value); }
bool JsonBuilder::number_integer(Json::number_integer_t value) { return add_number(value); }
bool JsonBuilder::number_unsigned(Json::number_unsigned_t value) { return add_number(value); }
bool JsonBuilder::number_float(Json::number_float_t value, const std::string& text) {
  return add_number(text.find_first_of(".eE") == std::string::npos ? integer_of(text) : Json(value));
}
bool JsonBuilder::string(std::string& value) { return add(std::move(value)); }
bool JsonBuilder::binary(Json::binary_t& value) { return add(Json(std::move(value))); }
bool JsonBuilder::start_object(std::size_t /*size*/) { return start(Json::object()); }
bool JsonBuilder::end_object() { return end(); }
bool JsonBuilder::start_array(std::size_t /*size*/) { return start(Json::array()); }
bool JsonBuilder::end_array() { return end(); }

bool JsonBuilder::key(std::string& name) {
  Open& object = open_.back();
  if (!is_new(object, name) && repeated_key_.empty()) repeated_key_ = name;
  object.key = std::move(name);
  return true;
}

bool JsonBuilder::parse_error(std::size_t /*position*/, const std::string& /*last_token*/,
                              const Json::exception& error) {
  error_ = "not JSON: " + reason_of(error);
  return false;
}

bool JsonBuilder::add_number(Json value) {
  const auto odd = odd_numbers_.find(num_numbers_++);
  return add(odd == odd_numbers_.end() ? std::move(value) : odd->second);
}

bool JsonBuilder::add(Json value) {
  Open& open = open_.back();
  if (open.value.is_object()) {
    open.value.get_ref<Json::object_t&>().emplace_back(std::move(open.key), std::move(value));
  } else if (open.value.is_array()) {
    open.value.get_ref<Json::array_t&>().push_back(std::move(value));
  } else {
    open.value = std::move(value);
  }
  return true;
}

bool JsonBuilder::start(Json value) {
  if (open_.size() > max_depth) {
    error_ = fmt::format("its values are nested deeper than {}", max_depth);
    return false;
  }
  open_.push_back({std::move(value), {}, {}});
  return true;
}

bool JsonBuilder::end() {
  Json value = std::move(open_.back().value);
  open_.pop_back();
  return add(std::move(value));
}

bool JsonBuilder::is_new(Open& object, const std::string& name) {
  const auto& members = object.value.get_ref<const Json::object_t&>();
  if (members.size() < max_keys_looked_at) {
    return std::ranges::none_of(members, [&](const auto& member) { return member.first == name; });
  }
  if (object.keys.empty()) {
    for (const auto& [known, value] : members) object.keys.insert(known);
  }
  return object.keys.insert(name).second;
}

}  // namespace sft::prepare
