// SPDX-License-Identifier: Apache-2.0
// A Position as attributes, and as a text.
#include "position_members.hpp"

#include <fmt/core.h>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "header.hpp"
#include "sft/config/values.hpp"
#include "sft/core/error.hpp"
#include "sft/core/program.hpp"

namespace sft::checkpoint {

namespace {

config::RowOrder parse_row_order(const std::string& name, const std::string& source) {
  for (const config::RowOrder order : {config::RowOrder::trl, config::RowOrder::endless}) {
    if (name == config::write(order)) return order;
  }
  throw_data_error(fmt::format("cannot go on from {}", source),
                   fmt::format("its row_order is \"{}\", which this program does not know", name),
                   fmt::format("use the version of sft that wrote it, not {}", version()));
}

/// Writes members as attributes.
struct AttributeWriter {
  io::Hdf5File& index;

  void operator()(const char* name, std::int64_t value, Presence /*presence*/) const { index.write_int(name, value); }
  void operator()(const char* name, double value, Presence /*presence*/) const { index.write_float(name, value); }
  void operator()(const char* name, bool value, Presence /*presence*/) const {
    if (value) index.write_int(name, 1);
  }
  void operator()(const char* name, const std::optional<double>& value, Presence /*presence*/) const {
    if (value) index.write_float(name, *value);
  }
  void operator()(const char* name, const std::string& value, Presence /*presence*/) const {
    index.write_string(name, value);
  }
  void operator()(const char* name, config::RowOrder value, Presence /*presence*/) const {
    index.write_string(name, config::write(value));
  }
  void operator()(const char* name, const std::vector<Ancestor>& value, Presence /*presence*/) const {
    index.write_string(name, to_text(value));
  }
  void operator()(const char* name, const std::vector<Writer>& value, Presence /*presence*/) const {
    index.write_string(name, text_of(value));
  }
};

/// Reads them; a member that is not there keeps its value, unless it is always there.
struct AttributeReader {
  const io::Hdf5File& index;

  template <class Member>
  void operator()(const char* name, Member& value, Presence presence) const {
    if (presence == Presence::always || index.has_attribute(name)) read(name, value);
  }

 private:
  void read(const char* name, std::int64_t& value) const { value = index.read_int(name); }
  void read(const char* name, double& value) const { value = index.read_float(name); }
  void read(const char* name, bool& value) const { value = index.read_int(name) != 0; }
  void read(const char* name, std::optional<double>& value) const { value = index.read_float(name); }
  void read(const char* name, std::string& value) const { value = index.read_string(name); }
  void read(const char* name, config::RowOrder& value) const {
    value = parse_row_order(index.read_string(name), index.path());
  }
  void read(const char* name, std::vector<Ancestor>& value) const {
    value = parse_ancestors(index.read_string(name), index.path());
  }
  void read(const char* name, std::vector<Writer>& value) const {
    value = parse_writers(index.read_string(name), index.path());
  }
};

/// Writes them as members of a JSON object.
struct JsonWriter {
  nlohmann::json& json;

  template <class Member>
  void operator()(const char* name, const Member& value, Presence /*presence*/) const {
    json[name] = value;
  }
  void operator()(const char* name, const std::optional<double>& value, Presence /*presence*/) const {
    json[name] = value ? nlohmann::json(*value) : nlohmann::json();
  }
  void operator()(const char* name, const std::vector<Ancestor>& value, Presence /*presence*/) const {
    json[name] = to_text(value);
  }
  void operator()(const char* name, const std::vector<Writer>& value, Presence /*presence*/) const {
    json[name] = text_of(value);
  }
};

struct JsonReader {
  const nlohmann::json& json;

  template <class Member>
  void operator()(const char* name, Member& value, Presence /*presence*/) const {
    json.at(name).get_to(value);
  }
  void operator()(const char* name, std::optional<double>& value, Presence /*presence*/) const {
    if (!json.at(name).is_null()) value = json.at(name).get<double>();
  }
  void operator()(const char* name, std::vector<Ancestor>& value, Presence /*presence*/) const {
    value = parse_ancestors(json.at(name).get<std::string>(), "a message");
  }
  void operator()(const char* name, std::vector<Writer>& value, Presence /*presence*/) const {
    value = parse_writers(json.at(name).get<std::string>(), "a message");
  }
};

}  // namespace

void write_position(io::Hdf5File& index, const Position& position) {
  for_each_member(position, AttributeWriter{index});
}

Position read_position(const io::Hdf5File& index) {
  Position position;
  for_each_member(position, AttributeReader{index});
  return position;
}

std::string to_json_text(const Position& position) {
  nlohmann::json json;
  for_each_member(position, JsonWriter{json});
  return json.dump(-1, ' ', /*ensure_ascii=*/false, nlohmann::json::error_handler_t::replace);
}

Position position_of_json(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text);
  Position position;
  for_each_member(position, JsonReader{json});
  return position;
}

}  // namespace sft::checkpoint
