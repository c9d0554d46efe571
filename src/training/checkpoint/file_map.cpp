// SPDX-License-Identifier: Apache-2.0
#include "file_map.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"

namespace sft::checkpoint {

namespace {

using Json = nlohmann::ordered_json;
using parallel::Parameter;
using parallel::TpSplit;

constexpr std::array<std::pair<TpSplit, std::string_view>, 6> split_names{{{TpSplit::none, "none"},
                                                                           {TpSplit::partial, "partial"},
                                                                           {TpSplit::rows, "rows"},
                                                                           {TpSplit::columns, "columns"},
                                                                           {TpSplit::vocab_rows, "vocab_rows"},
                                                                           {TpSplit::kv_rows, "kv_rows"}}};
constexpr std::array<std::pair<DType, std::string_view>, 3> dtype_names{
    {{DType::float32, "float32"}, {DType::bf16, "bfloat16"}, {DType::uint8, "uint8"}}};

template <class Value, std::size_t size>
std::string_view name_in(const std::array<std::pair<Value, std::string_view>, size>& names, Value value) {
  for (const auto& [other, name] : names) {
    if (other == value) return name;
  }
  SFT_ENSURE(false, "what is stored has a name");
  return "";
}

template <class Value, std::size_t size>
Value value_in(const std::array<std::pair<Value, std::string_view>, size>& names, const std::string& wanted) {
  for (const auto& [value, name] : names) {
    if (name == wanted) return value;
  }
  throw std::invalid_argument("\"" + wanted + "\" is none of the names");
}

Json json_of(const Parameter& p) {
  Json json = {{"name", p.name}, {"rows", p.rows}, {"columns", p.columns}, {"split", name_in(split_names, p.split)}};
  if (p.num_kv_heads > 0) json["kv_heads"] = p.num_kv_heads;
  if (p.num_experts > 0) json["expert"] = {p.expert, p.num_experts};
  if (p.joins_previous) json["joins_previous"] = true;
  return json;
}

Parameter parameter_of(const Json& json) {
  Parameter p;
  p.name = json.at("name").get<std::string>();
  p.rows = json.at("rows").get<std::int64_t>();
  p.columns = json.at("columns").get<std::int64_t>();
  p.split = value_in(split_names, json.at("split").get<std::string>());
  p.num_kv_heads = json.value("kv_heads", std::int64_t{0});
  if (json.contains("expert")) {
    std::tie(p.expert, p.num_experts) = json.at("expert").get<std::pair<int, int>>();
    if (p.expert < 0 || p.expert >= p.num_experts) throw std::invalid_argument("there is no such expert");
  }
  p.joins_previous = json.value("joins_previous", false);
  if (p.rows < 0 || p.columns < 0) throw std::invalid_argument("a parameter has a negative size");
  return p;
}

Json json_of(const Cut& cut) {
  Json axes = Json::array(), units = Json::array();
  for (const Axis axis : all_axes) {
    if (cut.shard_axes.contains(axis)) axes.push_back(name_of(axis));
  }
  for (const parallel::Unit& unit : cut.units) {
    Json parameters = Json::array();
    for (const Parameter& p : unit.parameters) parameters.push_back(json_of(p));
    units.push_back({{"name", unit.name}, {"parameters", std::move(parameters)}});
  }
  return {{"shard_axes", std::move(axes)}, {"units", std::move(units)}};
}

/// None: no axis has this name.
std::optional<Axis> find_axis(const std::string& name) {
  const auto found = std::ranges::find(all_axes, std::string_view(name), [](Axis axis) { return name_of(axis); });
  return found == all_axes.end() ? std::nullopt : std::optional(*found);
}

Axis axis_of(const std::string& name) {
  if (const std::optional<Axis> axis = find_axis(name)) return *axis;
  throw std::invalid_argument("\"" + name + "\" is no axis");
}

Cut cut_of(const Json& json) {
  Cut cut;
  for (const Json& axis : json.at("shard_axes")) cut.shard_axes.insert(axis_of(axis.get<std::string>()));
  for (const Json& unit : json.at("units")) {
    parallel::Unit read;
    read.name = unit.at("name").get<std::string>();
    for (const Json& p : unit.at("parameters")) read.parameters.push_back(parameter_of(p));
    cut.units.push_back(std::move(read));
  }
  return cut;
}

/// What the cut alone says of an entry that has all of its parameters.
std::vector<io::TensorInfo> all_tensors(const Cut& cut, const std::string& entry, DType dtype) {
  std::vector<io::TensorInfo> tensors;
  for (const parallel::Unit& unit : cut.units) {
    for (const Parameter& p : unit.parameters) {
      const std::vector<std::int64_t> shape = p.is_vector() ? std::vector{p.rows} : std::vector{p.rows, p.columns};
      tensors.push_back({entry + "/" + p.name, shape, dtype});
    }
  }
  return tensors;
}

std::size_t num_parameters(const Cut& cut) {
  std::size_t number = 0;
  for (const parallel::Unit& unit : cut.units) number += unit.parameters.size();
  return number;
}

Json json_of(const MappedEntry& entry, const Cut& cut) {
  Json json = {{"name", entry.name},
               {"dtype", name_in(dtype_names, entry.dtype)},
               {"cut", entry.cut},
               {"is_as_parameters", entry.is_as_parameters}};
  if (entry.is_as_parameters && entry.tensors.size() == num_parameters(cut)) return json;
  Json tensors = Json::array();
  for (const io::TensorInfo& tensor : entry.tensors) {
    tensors.push_back({{"name", tensor.name.substr(entry.name.size() + 1)}, {"shape", tensor.shape}});
  }
  json["tensors"] = std::move(tensors);
  if (entry.is_as_parameters) return json;
  Json parts = Json::array();
  for (const auto& [owner, own] : entry.parts) {
    Json list = Json::array();
    for (const FilePart& part : own) {
      const io::Rectangle& w = part.where;
      list.push_back({part.tensor, w.row_begin, w.num_rows, w.column_begin, w.num_columns});
    }
    parts.push_back({{"rank", owner}, {"parts", std::move(list)}});
  }
  json["parts"] = std::move(parts);
  return json;
}

bool lies_in(const io::Rectangle& where, const std::vector<std::int64_t>& shape) {
  const std::int64_t columns = shape.size() > 1 ? shape[1] : 1;
  return where.row_begin >= 0 && where.num_rows >= 0 && where.row_begin <= shape[0] - where.num_rows &&
         where.column_begin >= 0 && where.num_columns >= 0 && where.column_begin <= columns - where.num_columns;
}

std::vector<FilePart> parts_of(const Json& list, const std::vector<io::TensorInfo>& tensors) {
  std::vector<FilePart> parts;
  std::int64_t position = 0;
  for (const Json& numbers : list) {
    const auto [tensor, row, num_rows, column, num_columns] = numbers.get<std::array<std::int64_t, 5>>();
    const io::Rectangle where{row, num_rows, column, num_columns};
    if (!lies_in(where, tensors.at(checked_cast<std::size_t>(tensor)).shape)) {
      throw std::out_of_range("a part does not lie in its tensor");
    }
    parts.push_back({checked_cast<int>(tensor), where, position});
    position += where.num_elements();
  }
  return parts;
}

MappedEntry entry_of_json(const Json& json, const std::vector<Cut>& cuts) {
  MappedEntry entry;
  entry.name = json.at("name").get<std::string>();
  entry.dtype = value_in(dtype_names, json.at("dtype").get<std::string>());
  entry.cut = json.at("cut").get<int>();
  entry.is_as_parameters = json.at("is_as_parameters").get<bool>();
  const Cut& cut = cuts.at(checked_cast<std::size_t>(entry.cut));
  if (!json.contains("tensors")) {
    entry.tensors = all_tensors(cut, entry.name, entry.dtype);
    return entry;
  }
  for (const Json& tensor : json.at("tensors")) {
    auto shape = tensor.at("shape").get<std::vector<std::int64_t>>();
    if (shape.empty() || shape.size() > 2) throw std::invalid_argument("a tensor has one or two dims");
    entry.tensors.push_back({entry.name + "/" + tensor.at("name").get<std::string>(), std::move(shape), entry.dtype});
  }
  if (entry.is_as_parameters) return entry;
  for (const Json& own : json.at("parts")) {
    entry.parts[own.at("rank").get<int>()] = parts_of(own.at("parts"), entry.tensors);
  }
  return entry;
}

/// File, then first byte, number of elements and hash of each entry.
Json json_of(const RankRegions& rank) {
  Json json = Json::array({rank.file});
  for (const StoredRegion& region : rank.regions) {
    json.push_back(region.begin);
    json.push_back(region.num_elements);
    json.push_back(region.hash);
  }
  return json;
}

RankRegions rank_of_json(const Json& json, std::size_t num_entries, std::size_t num_files) {
  RankRegions rank;
  rank.file = json.at(0).get<int>();
  if (rank.file < -1 || rank.file >= static_cast<int>(num_files)) throw std::out_of_range("a rank names no file");
  for (std::size_t i = 0; i < num_entries; ++i) {
    rank.regions.push_back({.begin = json.at(1 + 3 * i).get<std::uint64_t>(),
                            .num_elements = json.at(2 + 3 * i).get<std::int64_t>(),
                            .hash = json.at(3 + 3 * i).get<std::string>()});
    if (rank.regions.back().num_elements > 0 && rank.file < 0) throw std::out_of_range("a region lies in no file");
  }
  return rank;
}

FileMap map_of(const Json& json, std::vector<ShardFile> files) {
  FileMap map;
  map.files = std::move(files);
  AxisArray<int> sizes(1, {});
  for (const auto& [name, size] : json.at("mesh").items()) {
    if (size.get<int>() < 1) throw std::invalid_argument("an axis has no rank");
    // Other versions may name other axes: with one rank these say nothing.
    if (size.get<int>() > 1 || find_axis(name)) sizes[axis_of(name)] = size.get<int>();
  }
  map.layout = mesh::Layout(sizes);
  for (const Json& cut : json.at("cuts")) map.cuts.push_back(cut_of(cut));
  for (const Json& entry : json.at("entries")) map.entries.push_back(entry_of_json(entry, map.cuts));
  for (const Json& rank : json.at("ranks")) {
    map.ranks.push_back(rank_of_json(rank, map.entries.size(), map.files.size()));
  }
  if (std::ssize(map.ranks) != map.layout.size()) throw std::invalid_argument("it does not list every rank");
  return map;
}

bool is_alike(const Parameter& one, const Parameter& other) {
  return one.name == other.name && one.rows == other.rows && one.columns == other.columns && one.split == other.split &&
         one.num_kv_heads == other.num_kv_heads && one.num_experts == other.num_experts && one.expert == other.expert &&
         one.joins_previous == other.joins_previous;
}

}  // namespace

bool Cut::has_same_units(const Cut& other) const {
  return std::ranges::equal(units, other.units, [](const parallel::Unit& a, const parallel::Unit& b) {
    return std::ranges::equal(a.parameters, b.parameters, is_alike);
  });
}

std::string to_text(const FileMap& map) {
  Json mesh = Json::object();
  for (const Axis axis : all_axes) mesh[std::string(name_of(axis))] = map.layout[axis];
  Json cuts = Json::array(), entries = Json::array(), ranks = Json::array();
  for (const Cut& cut : map.cuts) cuts.push_back(json_of(cut));
  for (const MappedEntry& entry : map.entries) {
    entries.push_back(json_of(entry, map.cuts[entry.cut]));
  }
  for (const RankRegions& rank : map.ranks) ranks.push_back(json_of(rank));
  return Json{{"mesh", std::move(mesh)},
              {"cuts", std::move(cuts)},
              {"entries", std::move(entries)},
              {"ranks", std::move(ranks)}}
      .dump();
}

FileMap parse_file_map(const std::string& text, std::vector<ShardFile> files, const std::string& source) {
  try {
    return map_of(Json::parse(text), std::move(files));
  } catch (const std::exception& error) {  // of the JSON library and of what is above
    throw_data_error("cannot read the map of the shard files in " + source, error.what(),
                     "the file is damaged: use another checkpoint");
  }
}

Region region_of(std::int64_t num_elements, int num_replicas, int replica) {
  constexpr std::int64_t step = 1024;
  const std::int64_t most = round_up((num_elements + num_replicas - 1) / num_replicas, step);
  const std::int64_t begin = std::min(num_elements, replica * most);
  return {begin, std::min(num_elements, begin + most) - begin};
}

int owner_of(const mesh::Layout& layout, const AxisSet& copy_axes, int rank) {
  mesh::Coordinates coordinates = layout.coordinates(WorldRank::from(rank));
  for (const Axis axis : all_axes) {
    if (copy_axes.contains(axis)) coordinates[axis] = 0;
  }
  return layout.rank(coordinates);
}

std::vector<std::string> dataset_names(const std::vector<std::string>& entries) {
  std::map<std::string, int> numbers;
  std::vector<std::string> names;
  for (const std::string& entry : entries) {
    const int number = ++numbers[entry];
    names.push_back(number == 1 ? entry : fmt::format("{}.{}", entry, number));
  }
  return names;
}

}  // namespace sft::checkpoint
