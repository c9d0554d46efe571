// SPDX-License-Identifier: Apache-2.0
#pragma once
// Small JSON files of a model folder, and the fields of a config.json, read one by one: what nobody asked for is known
// in the end.

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

namespace sft::hub {

/// The object that `text` is; a data Error that names `source` when it is none or nested too deeply.
[[nodiscard]] nlohmann::json parse_json_object(const std::string& text, const std::string& source);
/// The object that the file at `path`, of at most 64 MiB, holds; a data Error that names it when it holds none.
[[nodiscard]] nlohmann::json read_json_object(const std::string& path);

/// Whether a config.json describes a model of several towers, such as one for images, of which the text tower is ours.
[[nodiscard]] bool is_tower_config(const nlohmann::json& config);
/// What it says of the decoder: its text_config, or all of it.
[[nodiscard]] const nlohmann::json& decoder_config(const nlohmann::json& config);

/// A field that is null counts as one that is not there, but for has(). Errors are data Errors that name the source and
/// the field.
class ConfigFields {
 public:
  /// `object` outlives it.
  ConfigFields(const nlohmann::json& object, std::string source) : object_(object), source_(std::move(source)) {}
  [[nodiscard]] const nlohmann::json& object() const { return object_; }

  /// Whether the field is there, be it null.
  [[nodiscard]] bool has(const std::string& name) const { return object_.contains(name); }
  [[nodiscard]] std::int64_t required_integer(const std::string& name);
  [[nodiscard]] std::int64_t integer(const std::string& name, std::int64_t fallback);
  [[nodiscard]] double number(const std::string& name, double fallback);
  [[nodiscard]] bool truth(const std::string& name, bool fallback);
  [[nodiscard]] std::string text(const std::string& name, const std::string& fallback);
  [[nodiscard]] std::vector<std::string> texts(const std::string& name);
  [[nodiscard]] std::vector<int> integers(const std::string& name);
  /// The value as it is; null when there is none.
  [[nodiscard]] const nlohmann::json& value(const std::string& name);

  /// Fields that were not asked for and say something: neither null, false, 0 nor empty.
  [[nodiscard]] std::vector<std::string> unread() const;
  [[nodiscard]] const std::string& source() const { return source_; }
  /// A data Error: `FIELD = VALUE of SOURCE` cannot be trained.
  [[noreturn]] void refuse(const std::string& name, const std::string& why, const std::string& what_to_do) const;

  /// The same for a value of another kind than `expected`.
  [[noreturn]] void refuse_kind(const std::string& name, const std::string& expected) const;

 private:
  const nlohmann::json& object_;
  std::string source_;
  std::set<std::string> read_;
};

}  // namespace sft::hub
