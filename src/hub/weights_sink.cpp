// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "number_formats.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/error.hpp"
#include "sft/hub/weights.hpp"

namespace sft::hub {

namespace {

using nlohmann::ordered_json;

struct TypeName {
  WeightType type;
  const char* name;         ///< PyTorch's
  const char* stored_name;  ///< that of safetensors
  std::uint64_t size_bytes;
};
constexpr std::array<TypeName, 3> type_names{{{WeightType::float32, "float32", "F32", 4},
                                              {WeightType::bfloat16, "bfloat16", "BF16", 2},
                                              {WeightType::float16, "float16", "F16", 2}}};

const TypeName& names_of(WeightType type) {
  for (const TypeName& names : type_names) {
    if (names.type == type) return names;
  }
  throw std::logic_error("a weight type has a name");
}

std::string name_without_entry(const std::string& name) { return name.substr(name.find('/') + 1); }

/// The JSON with its length before it, padded with spaces to whole words of 8 bytes.
std::string framed(const ordered_json& header) {
  std::string text = header.dump();
  text.resize(round_up(text.size(), std::size_t{8}), ' ');
  std::string frame(8, '\0');
  std::uint64_t length = text.size();
  for (char& byte : frame) {
    byte = static_cast<char>(length & 0xffU);
    length >>= 8U;
  }
  return frame + text;
}

std::string file_name(const std::string& stem, std::size_t index, std::size_t count) {
  if (count == 1) return stem + ".safetensors";
  std::array<char, 64> part{};
  std::snprintf(part.data(), part.size(), "-%05zu-of-%05zu.safetensors", index + 1, count);
  return stem + part.data();
}

/// `values` as `type`, into `bytes`. Calls refuse(value) for a finite number that the type cannot hold.
template <class Refuse>
void convert(WeightType type, const float* values, std::size_t count, char* bytes, const Refuse& refuse) {
  if (type == WeightType::float32) {
    std::memcpy(bytes, values, count * sizeof(float));
    return;
  }
  constexpr std::uint16_t float16_infinity = 0x7c00;
  for (std::size_t i = 0; i < count; ++i) {
    const bool is_half = type == WeightType::float16;
    const std::uint16_t stored = is_half ? float16_of_float32(values[i]) : bf16_of_float32(values[i]);
    if (is_half && (stored & 0x7fffU) == float16_infinity && std::isfinite(values[i])) refuse(values[i]);
    std::memcpy(bytes + i * sizeof stored, &stored, sizeof stored);
  }
}

}  // namespace

const char* name_of(WeightType type) { return names_of(type).name; }

WeightType parse_weight_type(const std::string& text) {
  for (const TypeName& names : type_names) {
    if (text == names.name) return names.type;
  }
  throw_config_error(fmt::format("there is no dtype \"{}\" for weights", text),
                     "there are float32, bfloat16 and float16", "choose one of them");
}

WeightsPlan::WeightsPlan(const std::vector<io::TensorInfo>& tensors, WeightType type, std::uint64_t max_file_bytes,
                         const std::string& stem)
    : type_(type) {
  const TypeName& names = names_of(type);
  std::vector<ordered_json> headers;
  std::vector<std::uint64_t> data_bytes;
  for (const io::TensorInfo& tensor : tensors) {
    const auto size = static_cast<std::uint64_t>(tensor.num_elements()) * names.size_bytes;
    if (headers.empty() || (data_bytes.back() > 0 && data_bytes.back() + size > max_file_bytes)) {
      headers.push_back({{"__metadata__", {{"format", "pt"}}}});
      data_bytes.push_back(0);
    }
    const std::uint64_t begin = data_bytes.back();
    data_bytes.back() += size;
    headers.back()[name_without_entry(tensor.name)] = {
        {"dtype", names.stored_name}, {"shape", tensor.shape}, {"data_offsets", {begin, begin + size}}};
    places_[tensor.name] = {headers.size() - 1, begin, tensor.shape};
    total_bytes_ += size;
    num_elements_ += static_cast<std::uint64_t>(tensor.num_elements());
  }
  for (std::size_t i = 0; i < headers.size(); ++i) {
    std::string header = framed(headers[i]);
    const std::uint64_t size = header.size() + data_bytes[i];
    files_.push_back({file_name(stem, i, headers.size()), std::move(header), size});
  }
  for (auto& [name, place] : places_) place.begin += files_[place.file].header.size();
}

std::string WeightsPlan::index_json() const {
  if (files_.size() < 2) return "";
  ordered_json map = ordered_json::object();
  for (const auto& [name, place] : places_) map[name_without_entry(name)] = files_[place.file].name;
  const ordered_json index = {{"metadata", {{"total_parameters", num_elements_}, {"total_size", total_bytes_}}},
                              {"weight_map", map}};
  return index.dump(2) + "\n";
}

void create_weight_files(const WeightsPlan& plan, const std::string& folder) {
  for (const WeightsPlan::File& file : plan.files()) {
    io::RawFile made = io::RawFile::create((std::filesystem::path(folder) / file.name).string(), file.size_bytes);
    made.write(0, file.header.size(), file.header.data());
    made.sync();
  }
}

WeightsSink::WeightsSink(const WeightsPlan& plan, const std::string& folder) : plan_(plan), folder_(folder) {}

void WeightsSink::write(const std::string& name, const io::Rectangle& where, DType dtype, const void* values) {
  const WeightsPlan::TensorRange& place = plan_.place(name);
  const WeightsPlan::File& file = plan_.files()[place.file];
  auto open = files_.find(place.file);
  if (open == files_.end()) {
    const std::string path = (std::filesystem::path(folder_) / file.name).string();
    open = files_.emplace(place.file, io::RawFile::extend(path)).first;
  }
  const std::uint64_t element_bytes = names_of(plan_.type()).size_bytes;
  const std::size_t count = where.num_elements();
  buffer_.resize(count * element_bytes);
  convert(plan_.type(), io::as_float32(values, dtype, count, widened_), count, buffer_.data(), [&](float value) {
    throw_data_error(fmt::format("tensor {} does not fit into float16", name_without_entry(name)),
                     fmt::format("it holds {:f}, and the largest number of float16 is 65504", value),
                     "choose bfloat16 or float32");
  });
  const std::int64_t width = place.shape.size() > 1 ? place.shape[1] : 1;
  const bool is_contiguous = where.num_columns == width;
  const std::int64_t num_runs = is_contiguous ? 1 : where.num_rows;
  const std::size_t run_bytes = buffer_.size() / static_cast<std::size_t>(std::max<std::int64_t>(num_runs, 1));
  for (std::int64_t i = 0; i < num_runs; ++i) {
    const auto first = static_cast<std::uint64_t>((where.row_begin + i) * width + where.column_begin);
    open->second.write(place.begin + first * element_bytes, run_bytes, buffer_.data() + i * run_bytes);
  }
}

void WeightsSink::finish() {
  for (auto& [index, file] : files_) file.sync();
}

}  // namespace sft::hub
