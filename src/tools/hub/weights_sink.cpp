// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <utility>

#include "folder_tensors.hpp"
#include "number_formats.hpp"
#include "sft/core/cast.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/hub/shared_regions.hpp"
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

constexpr std::size_t region_bytes = std::size_t{4} << 20;  ///< that are written together, or more
constexpr std::size_t copy_bytes = std::size_t{4} << 20;

std::uint64_t num_elements(const std::vector<std::int64_t>& shape) {
  std::uint64_t count = 1;
  for (const std::int64_t size : shape) count *= static_cast<std::uint64_t>(size);
  return count;
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

std::uint64_t size_bytes_of(WeightType type) { return names_of(type).size_bytes; }

WeightType parse_weight_type(const std::string& text) {
  for (const TypeName& names : type_names) {
    if (text == names.name) return names.type;
  }
  throw_config_error(fmt::format("there is no dtype \"{}\" for weights", text),
                     "there are float32, bfloat16 and float16", "choose one of them");
}

WeightsPlan::WeightsPlan(const std::vector<io::TensorInfo>& tensors, WeightType type, std::uint64_t max_file_bytes,
                         const std::string& stem, const FileLayout& layout, const config::Lora* lora)
    : type_(type), map_(layout, tensors, AdapterRanks::added, lora) {
  std::vector<ordered_json> headers;
  std::vector<std::uint64_t> data_bytes;
  const auto take = [&](const std::string& name, const std::string& dtype, const std::vector<std::int64_t>& shape,
                        std::uint64_t size) {
    if (headers.empty() || (data_bytes.back() > 0 && data_bytes.back() + size > max_file_bytes)) {
      headers.push_back({{"__metadata__", {{"format", "pt"}}}});
      data_bytes.push_back(0);
    }
    const std::uint64_t begin = data_bytes.back();
    data_bytes.back() += size;
    headers.back()[name] = {{"dtype", dtype}, {"shape", shape}, {"data_offsets", {begin, begin + size}}};
    total_bytes_ += size;
    num_elements_ += num_elements(shape);
    return TensorRange{headers.size() - 1, begin};
  };
  for (std::size_t i = 0; i < map_.files().size(); ++i) {
    const FileTensor& tensor = map_.files()[i];
    const TypeName& names = names_of(type_of(i));
    places_.push_back(
        take(tensor.name, names.stored_name, tensor.shape, num_elements(tensor.shape) * names.size_bytes));
  }
  for (const FileTensor& tensor : layout.carried) {
    carried_.emplace_back(tensor, take(tensor.name, tensor.dtype, tensor.shape, tensor.num_bytes));
  }
  for (std::size_t i = 0; i < headers.size(); ++i) {
    std::string header = framed(headers[i]);
    const std::uint64_t size = header.size() + data_bytes[i];
    files_.push_back({file_name(stem, i, headers.size()), std::move(header), size});
  }
  for (std::size_t i = 0; i < places_.size(); ++i) {
    file_of_[map_.files()[i].name] = files_[places_[i].file].name;
    places_[i].begin += files_[places_[i].file].header.size();
  }
  for (auto& [tensor, place] : carried_) {
    file_of_[tensor.name] = files_[place.file].name;
    place.begin += files_[place.file].header.size();
  }
}

WeightType WeightsPlan::type_of(std::size_t index) const {
  return map_.files()[index].name.ends_with(".e_score_correction_bias") ? WeightType::float32 : type_;
}

std::string WeightsPlan::index_json() const {
  if (files_.size() < 2) return "";
  const ordered_json index = {{"metadata", {{"total_parameters", num_elements_}, {"total_size", total_bytes_}}},
                              {"weight_map", file_of_}};
  return index.dump(2) + "\n";
}

void create_weight_files(const WeightsPlan& plan, const std::string& folder) {
  for (const WeightsPlan::File& file : plan.files()) {
    io::RawFile made = io::RawFile::create((std::filesystem::path(folder) / file.name).string(), file.size_bytes);
    made.write(0, file.header.size(), file.header.data());
    made.sync();
  }
}

void copy_carried(const WeightsPlan& plan, const std::string& from, const std::string& to) {
  if (plan.carried().empty()) return;
  const FolderTensors source = read_folder_tensors(from);
  std::map<std::size_t, io::RawFile> files;
  std::vector<char> bytes;
  std::vector<float> numbers;
  for (const auto& [tensor, place] : plan.carried()) {
    const FolderTensor* const found = source.find(tensor.name);
    if (found == nullptr || found->num_bytes() != tensor.num_bytes || found->stored.dtype != tensor.dtype) {
      throw_data_error(fmt::format("{} no longer has tensor {}", from, tensor.name),
                       "it was there when the run began, and is carried into what the run leaves",
                       "leave the model's folder as it is while it is trained");
    }
    auto file = files.find(place.file);
    if (file == files.end()) {
      const std::string target = (std::filesystem::path(to) / plan.files()[place.file].name).string();
      file = files.emplace(place.file, io::RawFile::extend(target)).first;
    }
    for (std::uint64_t at = 0; at < tensor.num_bytes; at += bytes.size()) {
      bytes.resize(std::min<std::uint64_t>(copy_bytes, tensor.num_bytes - at));
      if (found->codes == nullptr) {
        found->file->read(found->stored.begin + at, bytes.size(), bytes.data());
      } else {  // its numbers, for what is written is not quantized
        const WeightType type = found->codes->type();
        numbers.resize(bytes.size() / size_bytes_of(type));
        found->codes->read(static_cast<std::int64_t>(at / size_bytes_of(type)), std::ssize(numbers), numbers.data());
        convert(type, numbers.data(), numbers.size(), bytes.data(), [](float) {});
      }
      file->second.write(place.begin + at, bytes.size(), bytes.data());
    }
  }
  for (auto& [index, file] : files) file.sync();
}

void order_experts(const WeightsPlan& plan, const std::string& folder) {
  std::map<std::size_t, io::RawFile> files;
  std::vector<char> by_expert, ordered;
  for (const StackedTensor& stacked : plan.map().stacked()) {
    const auto& [index, begin] = plan.place(stacked.tensor);
    const std::string path = (std::filesystem::path(folder) / plan.files()[index].name).string();
    io::RawFile& file = files.try_emplace(index, io::RawFile::extend(path)).first->second;
    const std::size_t element_bytes = size_bytes_of(plan.type_of(stacked.tensor));
    const std::int64_t num_experts = stacked.num_experts, of_expert = stacked.rows * stacked.rank;
    by_expert.resize(num_experts * of_expert * element_bytes);
    ordered.resize(by_expert.size());
    io::RawFile::open(path).read(begin, by_expert.size(), by_expert.data());
    for (std::int64_t expert = 0; expert < num_experts; ++expert) {
      for (std::int64_t i = 0; i < of_expert; ++i) {
        std::memcpy(ordered.data() + (i * num_experts + expert) * element_bytes,
                    by_expert.data() + (expert * of_expert + i) * element_bytes, element_bytes);
      }
    }
    file.write(begin, ordered.size(), ordered.data());
  }
  for (auto& [index, file] : files) file.sync();
}

WeightsSink::WeightsSink(const WeightsPlan& plan, const std::string& folder, SharedRegions* regions)
    : plan_(plan), folder_(folder), regions_(regions) {}

void WeightsSink::write(const std::string& name, const io::Rectangle& where, DType dtype, const void* values) {
  const std::vector<Run> runs = plan_.map().runs(name, where);
  if (runs.empty()) return;
  const WeightType type = plan_.type_of(runs.front().tensor);
  const std::uint64_t element_bytes = names_of(type).size_bytes;
  const std::size_t count = where.num_elements();
  converted_.resize(count * element_bytes);
  const float* numbers = io::as_float32(values, dtype, count, widened_);
  if (const float factor = plan_.map().tensor(name).factor; factor != 1.0F) {
    std::vector<float> scaled(count);
    std::transform(numbers, numbers + count, scaled.begin(), [=](float number) { return factor * number; });
    widened_ = std::move(scaled);
    numbers = widened_.data();
  }
  convert(type, numbers, count, converted_.data(), [&](float value) {
    throw_data_error(fmt::format("tensor {} does not fit into float16", name_without_entry(name)),
                     fmt::format("it holds {:f}, and the largest number of float16 is 65504", value),
                     "choose bfloat16 or float32");
  });
  const auto write_region = [this](std::size_t tensor, std::uint64_t begin, std::uint64_t size, const char* bytes) {
    const WeightsPlan::TensorRange& place = plan_.place(tensor);
    open(place.file).write(place.begin + begin, size, bytes);
  };
  const bool is_shared = regions_ != nullptr && where.num_columns < plan_.map().tensor(name).width();
  for (const Run& run : runs) {
    SFT_ENSURE(run.memory_step == 1, "matrices of MXFP4 are not written");
    if (is_shared) {
      regions_->put(run.tensor, run.first * element_bytes, run.count * element_bytes,
                    converted_.data() + run.memory_first * element_bytes, write_region);
      continue;
    }
    const WeightsPlan::TensorRange& place = plan_.place(run.tensor);
    const std::uint64_t begin = place.begin + run.first * element_bytes;
    if (region_.size() >= region_bytes || place.file != region_file_ || begin != region_begin_ + region_.size())
      flush();
    if (region_.empty()) {
      region_file_ = place.file;
      region_begin_ = begin;
    }
    const char* const from = converted_.data() + run.memory_first * element_bytes;
    region_.insert(region_.end(), from, from + run.count * element_bytes);
  }
}

void WeightsSink::flush() {
  if (region_.empty()) return;
  open(region_file_).write(region_begin_, region_.size(), region_.data());
  region_.clear();
}

io::RawFile& WeightsSink::open(std::size_t file) {
  auto found = files_.find(file);
  if (found == files_.end()) {
    const std::string path = (std::filesystem::path(folder_) / plan_.files()[file].name).string();
    found = files_.emplace(file, io::RawFile::extend(path)).first;
  }
  return found->second;
}

void WeightsSink::finish() {
  flush();
  for (auto& [index, file] : files_) file.sync();
}

}  // namespace sft::hub
