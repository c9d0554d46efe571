// SPDX-License-Identifier: Apache-2.0
#include "quantization.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <filesystem>
#include <string_view>

namespace sft::hub {

namespace {

using nlohmann::json;

constexpr std::int64_t largest_weight_block = std::int64_t{1} << 20;

/// A field of an object that may be none.
const json& at(const json& object, const char* name) {
  static const json nothing;
  if (!object.is_object()) return nothing;
  const auto found = object.find(name);
  return found == object.end() ? nothing : *found;
}

bool says_nothing(const json& value) { return value.is_null() || (value.is_structured() && value.empty()); }

/// Reads one field, whose refusals name it.
class Reader {
 public:
  Reader(ConfigFields& fields, const char* name) : fields_(fields), name_(name), value_(fields.value(name)) {}

  [[nodiscard]] Quantization read() {
    if (value_.is_null()) return {};
    const json& method = at(value_, "quant_method");
    if (method == "bitsandbytes") return read_four_bits();
    if (method == "mxfp4") return {.form = StoredForm::mxfp4, .skipped_modules = {}};
    if (method == "fp8") return read_fp8();
    if (method == "fbgemm_fp8") return {.form = StoredForm::fp8, .skipped_modules = {}};
    if (method == "modelopt" && at(value_, "quant_algo") == "FP8")
      return {.form = StoredForm::fp8, .skipped_modules = {}};
    if (method == "compressed-tensors" || std::string(name_) == "compression_config") return read_compressed();
    refuse("of quantized weights those of bitsandbytes in 4 bits and those in FP8 can be read");
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    fields_.refuse(name_, why, "give the model before it was quantized");
  }

  Quantization read_four_bits() {
    if (at(value_, "load_in_4bit") != true) refuse("of the formats of bitsandbytes that of 4 bits can be read");
    Quantization result{.form = StoredForm::four_bits, .skipped_modules = {}};
    const json& skipped = at(value_, "llm_int8_skip_modules");
    if (skipped.is_null()) return result;
    if (!skipped.is_array()) refuse("llm_int8_skip_modules is no list of modules");
    for (const json& module : skipped) {
      if (!module.is_string()) refuse("llm_int8_skip_modules is no list of modules");
      result.skipped_modules.push_back(module.get<std::string>());
    }
    return result;
  }

  /// Sizes of blocks, [rows, columns].
  void read_blocks(const json& sizes, Quantization& result) const {
    if (sizes.is_null()) return;  // scales of rows, or one: their shapes say so
    const auto is_size = [](const json& size) {
      return size.is_number_integer() && size.get<std::int64_t>() >= 1 &&
             size.get<std::int64_t>() <= largest_weight_block;
    };
    if (!sizes.is_array() || sizes.size() != 2 || !is_size(sizes[0]) || !is_size(sizes[1])) {
      refuse("blocks of FP8 have a number of rows and one of columns");
    }
    result.block_rows = sizes[0].get<std::int64_t>();
    result.block_columns = sizes[1].get<std::int64_t>();
  }

  /// transformers, and the published folders of DeepSeek, Qwen and Mistral.
  Quantization read_fp8() {
    Quantization result{.form = StoredForm::fp8, .skipped_modules = {}};
    read_blocks(at(value_, "weight_block_size"), result);
    if (const json& type = at(value_, "expert_dtype"); !type.is_null() && type != "fp8") {
      refuse("experts of 4 bits in it cannot be read");
    }
    return result;
  }

  /// compressed-tensors: the format "float-quantized" alone.
  Quantization read_compressed() {
    constexpr const char* other = "of the formats of compressed-tensors float-quantized with 8 bits can be read";
    Quantization result{.form = StoredForm::fp8, .skipped_modules = {}};
    const auto is_format = [](const json& format) {
      return format.is_null() || format == "float-quantized" || format == "dense";
    };
    if (!is_format(at(value_, "format"))) refuse(other);
    if (!is_format(at(at(value_, "sparsity_config"), "format"))) refuse("sparse weights cannot be read");
    if (!says_nothing(at(value_, "transform_config"))) refuse("weights that were rotated cannot be read");
    const json& groups = at(value_, "config_groups");
    if (!groups.is_object() || groups.empty()) refuse(other);
    for (const json& group : groups) {
      const json& weights = at(group, "weights");
      if (weights.is_null()) continue;
      const json& strategy = at(weights, "strategy");
      const bool is_known = strategy == "tensor" || strategy == "channel" || strategy == "block";
      if (at(weights, "type") != "float" || at(weights, "num_bits") != 8 || !is_known ||
          at(weights, "symmetric") == false || !is_format(at(group, "format"))) {
        refuse(other);
      }
      read_blocks(at(weights, "block_structure"), result);
    }
    return result;
  }

  ConfigFields& fields_;
  const char* name_;
  const json& value_;
};

}  // namespace

bool Quantization::skips(const std::string& path) const {
  return std::ranges::any_of(skipped_modules, [&](const std::string& name) {
    return !name.empty() && (path.ends_with(name) || path.find(name + ".") != std::string::npos);
  });
}

Quantization read_quantization(ConfigFields& fields) {
  const Quantization older = Reader(fields, "compression_config").read();
  Quantization result = Reader(fields, "quantization_config").read();
  return result.form == StoredForm::numbers ? older : result;
}

Quantization quantization_of(const std::string& folder) {
  const std::string path = (std::filesystem::path(folder) / "config.json").string();
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return {};
  const json whole = read_json_object(path);
  ConfigFields around(whole, path), decoder(decoder_config(whole), path);
  Quantization result = read_quantization(around);
  return result.form == StoredForm::numbers ? read_quantization(decoder) : result;
}

bool is_linear_of_block(const std::string& name, std::size_t num_dims) {
  if (num_dims != 2 || !(name.ends_with("_proj.weight") || name.ends_with(".input_linear.weight") ||
                         name.ends_with(".output_linear.weight")))
    return false;
  const std::string module = name.substr(0, name.rfind('.'));
  const std::string parent = module.substr(0, module.rfind('.'));
  return name.find("layers.") != std::string::npos &&
         (parent.ends_with(".self_attn") || parent.ends_with(".mlp") || parent.ends_with(".shared_mlp") ||
          parent.ends_with(".shared_experts"));
}

}  // namespace sft::hub
