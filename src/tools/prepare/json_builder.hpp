// SPDX-License-Identifier: Apache-2.0
#pragma once
// From the events of a JSON parser to a value whose objects keep the order of their keys. The library's own way looks
// for every key among all former ones of its object, which takes minutes where a record has a hundred thousand.

#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace sft::prepare {

/// Handed to nlohmann::ordered_json::sax_parse(), which asks for all members up to parse_error(): each returns whether
/// to go on.
class JsonBuilder {
 public:
  using Json = nlohmann::ordered_json;

  /// `odd_numbers`, by their place among all numbers of the text, take the place of what is parsed there.
  explicit JsonBuilder(std::map<std::size_t, Json> odd_numbers = {}) : odd_numbers_(std::move(odd_numbers)) {}

  bool null();
  bool boolean(bool value);
  bool number_integer(Json::number_integer_t value);
  bool number_unsigned(Json::number_unsigned_t value);
  bool number_float(Json::number_float_t value, const std::string& text);
  bool string(std::string& value);
  bool binary(Json::binary_t& value);
  bool start_object(std::size_t size);
  bool key(std::string& name);
  bool end_object();
  bool start_array(std::size_t size);
  bool end_array();
  bool parse_error(std::size_t position, const std::string& last_token, const Json::exception& error);

  /// Why the parser stopped.
  [[nodiscard]] const std::string& error() const { return error_; }
  /// The first key that stood in one object before, "" when there is none.
  [[nodiscard]] const std::string& repeated_key() const { return repeated_key_; }
  /// The value, when all of it was parsed.
  [[nodiscard]] Json take() { return std::move(open_.front().value); }

 private:
  /// A value that is not whole yet; the one at the bottom becomes that of the text.
  struct Open {
    Json value;
    std::string key;             ///< of an object: of the member that comes next
    std::set<std::string> keys;  ///< of an object with many
  };

  bool add(Json value);
  bool add_number(Json value);
  bool start(Json value);
  bool end();
  bool is_new(Open& object, const std::string& name);

  std::vector<Open> open_ = {Open{}};
  std::map<std::size_t, Json> odd_numbers_;
  std::size_t num_numbers_ = 0;
  std::string error_, repeated_key_;
};

}  // namespace sft::prepare
