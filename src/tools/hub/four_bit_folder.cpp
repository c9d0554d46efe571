// SPDX-License-Identifier: Apache-2.0
#include "sft/hub/four_bit_folder.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <vector>

#include "folder_tensors.hpp"
#include "number_formats.hpp"
#include "quantization.hpp"
#include "sft/core/block_codes.hpp"
#include "sft/core/dtype.hpp"
#include "sft/core/error.hpp"
#include "sft/hub/weights.hpp"
#include "sft/io/files.hpp"

namespace sft::hub {

namespace {

using nlohmann::ordered_json;

constexpr std::size_t copied_bytes = std::size_t{4} << 20;

/// A tensor of the files, and where it is.
struct Source {
  const io::RawFile* file;
  StoredTensor stored;
  WeightType type = WeightType::float32;
  bool is_quantized = false;  ///< here
};

const char* name_of(FourBitType type) { return type == FourBitType::nf4 ? "nf4" : "fp4"; }

std::optional<WeightType> type_of(const std::string& dtype) {
  if (dtype == "F32") return WeightType::float32;
  if (dtype == "BF16") return WeightType::bfloat16;
  if (dtype == "F16") return WeightType::float16;
  return std::nullopt;
}

/// Checks whether a matrix can be in 4 bits.
Source quantized(Source source, const std::string& folder) {
  const StoredTensor& stored = source.stored;
  const std::optional<WeightType> type = type_of(stored.dtype);
  const bool is_whole = stored.shape[1] % four_bit_block == 0;
  if (!type || !is_whole) {
    throw_data_error(fmt::format("tensor {} of {} cannot be quantized", stored.name, folder),
                     is_whole
                         ? fmt::format("it is of {}", stored.dtype)
                         : fmt::format("rows of {} numbers are no whole blocks of {}", stored.shape[1], four_bit_block),
                     "give a model of F32, BF16 or F16 with rows of whole blocks");
  }
  source.type = *type;
  source.is_quantized = true;
  return source;
}

std::vector<float> read_numbers(const Source& source, const std::string& folder) {
  const std::size_t num_bytes = source.stored.end - source.stored.begin;
  std::vector<char> bytes(num_bytes);
  source.file->read(source.stored.begin, num_bytes, bytes.data());
  std::vector<float> values(num_bytes / size_bytes_of(source.type));
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (source.type == WeightType::float32) {
      std::memcpy(&values[i], bytes.data() + i * sizeof(float), sizeof(float));
      continue;
    }
    std::uint16_t bits = 0;
    std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
    values[i] = source.type == WeightType::bfloat16 ? float32_of_bf16(bits) : float32_of_float16(bits);
  }
  for (const float value : values) {
    if (std::isfinite(value)) continue;
    throw_data_error(fmt::format("{} of {} holds NaN or Inf", source.stored.name, folder),
                     "such numbers cannot be quantized", "copy or download the file again");
  }
  return values;
}

/// The bytes of an element, by whose multiples readers expect a tensor to begin.
int alignment_of(const std::string& dtype) {
  if (dtype.ends_with("64")) return 8;
  if (dtype.ends_with("32")) return 4;
  return dtype.ends_with("16") ? 2 : 1;
}

/// The new file: all tensors are announced, then it is created, then they are written, in any order.
class NewFile {
 public:
  void announce(const std::string& name, const std::string& dtype, const std::vector<std::int64_t>& shape,
                std::uint64_t num_bytes) {
    tensors_.push_back({name, dtype, shape, num_bytes});
    size_ += num_bytes;
  }
  [[nodiscard]] std::uint64_t size_bytes() const { return size_; }

  void create(const std::string& path) {
    std::ranges::stable_sort(tensors_, std::ranges::greater{},
                             [](const FileTensor& tensor) { return alignment_of(tensor.dtype); });
    ordered_json header = {{"__metadata__", {{"format", "pt"}}}};
    std::uint64_t at = 0;
    for (const FileTensor& tensor : tensors_) {
      begins_[tensor.name] = at;
      header[tensor.name] = {
          {"dtype", tensor.dtype}, {"shape", tensor.shape}, {"data_offsets", {at, at + tensor.num_bytes}}};
      at += tensor.num_bytes;
    }
    std::string text = header.dump();
    text.resize((text.size() + 7) / 8 * 8, ' ');
    const auto length = static_cast<std::uint64_t>(text.size());
    data_begin_ = sizeof length + length;
    file_.emplace(io::RawFile::create(path, data_begin_ + size_));
    file_->write(0, sizeof length, &length);
    file_->write(sizeof length, text.size(), text.data());
  }
  /// Bytes of a tensor, from its byte `first` on.
  template <class T>
  void write(const std::string& name, std::span<const T> values, std::uint64_t first = 0) {
    file_->write(data_begin_ + begins_.at(name) + first, values.size_bytes(), values.data());
  }
  void finish() { file_->sync(); }

 private:
  std::vector<FileTensor> tensors_;
  std::map<std::string, std::uint64_t> begins_;  ///< behind the header
  std::uint64_t size_ = 0, data_begin_ = 0;
  std::optional<io::RawFile> file_;
};

/// The JSON beside a matrix, as long for every offset, which is known when it is quantized.
std::string state_of(const Source& source, const FourBitForm& form, float offset) {
  ordered_json state = {{"quant_type", name_of(form.type)},
                        {"blocksize", four_bit_block},
                        {"dtype", hub::name_of(source.type)},
                        {"shape", source.stored.shape}};
  if (form.is_nested) {
    state["nested_blocksize"] = nested_scale_block;
    state["nested_dtype"] = "float32";
    state["nested_offset"] = static_cast<double>(offset);
  }
  constexpr std::size_t longest_number = 32;
  std::string text = state.dump();
  if (form.is_nested) {
    state["nested_offset"] = 0;
    text.resize(state.dump().size() + longest_number, ' ');
  }
  return text;
}

std::int64_t num_elements(const Source& source) { return source.stored.shape[0] * source.stored.shape[1]; }

std::string state_name(const Source& source, const FourBitForm& form) {
  return fmt::format("{}.quant_state.bitsandbytes__{}", source.stored.name, name_of(form.type));
}

void announce(NewFile& file, const Source& source, const FourBitForm& form) {
  const std::string& name = source.stored.name;
  if (!source.is_quantized) {
    file.announce(name, source.stored.dtype, source.stored.shape, source.stored.end - source.stored.begin);
    return;
  }
  const std::int64_t size = num_elements(source), num_blocks = size / four_bit_block;
  const auto bytes = [](std::int64_t count, std::size_t each) { return static_cast<std::uint64_t>(count) * each; };
  file.announce(name, "U8", {size / 2, 1}, bytes(size / 2, 1));
  file.announce(name + ".absmax", form.is_nested ? "U8" : "F32", {num_blocks},
                bytes(num_blocks, form.is_nested ? 1 : 4));
  file.announce(name + ".quant_map", "F32", {16}, bytes(16, sizeof(float)));
  if (form.is_nested) {
    const std::int64_t num_nested = form.num_nested(size) - 1;
    file.announce(name + ".nested_absmax", "F32", {num_nested}, bytes(num_nested, sizeof(float)));
    file.announce(name + ".nested_quant_map", "F32", {256}, bytes(256, sizeof(float)));
  }
  const std::string state = state_of(source, form, 0.0F);
  file.announce(state_name(source, form), "U8", {std::ssize(state)}, state.size());
}

void write_quantized(NewFile& file, const Source& source, const FourBitForm& form, const std::string& folder) {
  FourBitQuantizer quantizer(form);
  quantizer.add(read_numbers(source, folder));
  const FourBitMatrix matrix = quantizer.finish();
  const std::string& name = source.stored.name;
  file.write<std::uint8_t>(name, matrix.codes);
  file.write(name + ".quant_map", std::span<const float>(form.values(), 16));
  if (form.is_nested) {
    static const BlockCode code = make_block_code(/*is_signed=*/true);
    file.write<std::uint8_t>(name + ".absmax", matrix.scale_codes);
    file.write(name + ".nested_absmax", std::span<const float>(matrix.nested).subspan(1));
    file.write<float>(name + ".nested_quant_map", code.values);
  } else {
    file.write<float>(name + ".absmax", matrix.scales);
  }
  file.write<char>(state_name(source, form), state_of(source, form, form.is_nested ? matrix.nested.front() : 0.0F));
}

void copy(NewFile& file, const Source& source) {
  std::vector<char> bytes;
  for (std::uint64_t at = source.stored.begin; at < source.stored.end; at += bytes.size()) {
    bytes.resize(std::min<std::uint64_t>(copied_bytes, source.stored.end - at));
    source.file->read(at, bytes.size(), bytes.data());
    file.write<char>(source.stored.name, bytes, at - source.stored.begin);
  }
}

/// config.json of a model that is not quantized.
ordered_json read_config(const std::string& path) {
  ordered_json config = ordered_json::parse(io::read_file(path), nullptr, /*allow_exceptions=*/false);
  if (!config.is_object()) throw_data_error("cannot read " + path, "it is no JSON object", "copy the folder again");
  if (config.contains("quantization_config")) {
    throw_data_error(fmt::format("{} is quantized already", path), "it has quantization_config",
                     "give the model before it was quantized");
  }
  return config;
}

/// What transformers reads in config.json before it loads such weights; products are to be computed in `type`.
ordered_json describe(const FourBitForm& form, WeightType type) {
  return {{"quant_method", "bitsandbytes"},
          {"load_in_4bit", true},
          {"load_in_8bit", false},
          {"_load_in_4bit", true},
          {"_load_in_8bit", false},
          {"bnb_4bit_quant_type", name_of(form.type)},
          {"bnb_4bit_use_double_quant", form.is_nested},
          {"bnb_4bit_compute_dtype", hub::name_of(type)},
          {"bnb_4bit_quant_storage", "uint8"},
          {"llm_int8_enable_fp32_cpu_offload", false},
          {"llm_int8_has_fp16_weight", false},
          {"llm_int8_skip_modules", nullptr},
          {"llm_int8_threshold", 6.0}};
}

}  // namespace

FourBitFolder write_four_bit_folder(const std::string& from, const FourBitForm& form, const std::string& to) {
  ordered_json config = read_config(from + "/config.json");
  const FolderTensors tensors = read_folder_tensors(from);
  std::vector<Source> sources;
  FourBitFolder result;
  WeightType computed = WeightType::float32;  ///< of the first matrix
  for (const std::string& name : tensors.names()) {
    const FolderTensor& tensor = tensors.at(name);
    if (tensor.codes != nullptr) {
      throw_data_error(fmt::format("{} is quantized already", from), name + " is",
                       "give the model before it was quantized");
    }
    const bool is_linear = is_linear_of_block(name, tensor.stored.shape.size());
    Source source{.file = tensor.file, .stored = tensor.stored};
    sources.push_back(is_linear ? quantized(std::move(source), from) : std::move(source));
    if (is_linear && ++result.num_matrices == 1) computed = sources.back().type;
  }
  if (result.num_matrices == 0) {
    throw_data_error(fmt::format("{} has no matrix to quantize", from),
                     "none is called layers.N.self_attn.NAME_proj.weight or layers.N.mlp.NAME_proj.weight",
                     "give another model");
  }
  NewFile file;
  for (const Source& source : sources) announce(file, source, form);
  file.create((std::filesystem::path(to) / "model.safetensors").string());
  for (const Source& source : sources) {
    if (source.is_quantized) {
      write_quantized(file, source, form, from);
    } else {
      copy(file, source);
    }
  }
  file.finish();
  config["quantization_config"] = describe(form, computed);
  io::write_file_atomically((std::filesystem::path(to) / "config.json").string(), config.dump(2) + "\n");
  result.size_bytes = file.size_bytes();
  return result;
}

}  // namespace sft::hub
