// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <algorithm>
#include <cstring>
#include <iterator>
#include <optional>
#include <utility>
#include <vector>

#include "folder_tensors.hpp"
#include "number_formats.hpp"
#include "quantization.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/hub/tensor_map.hpp"
#include "sft/hub/weights.hpp"
#include "weight_files.hpp"

namespace sft::hub {

namespace {

constexpr const char* embedding_name = "model/model.embed_tokens.weight";
constexpr const char* head_name = "model/lm_head.weight";

/// Turns `count` stored numbers at `bytes` into `dtype` at `values`.
void convert(WeightType type, const char* bytes, std::size_t count, DType dtype, void* values) {
  const auto each = [&](auto stored, const auto& to_float32) {
    for (std::size_t i = 0; i < count; ++i) {
      std::memcpy(&stored, bytes + i * sizeof stored, sizeof stored);
      const float value = to_float32(stored);
      if (dtype == DType::float32) {
        static_cast<float*>(values)[i] = value;
      } else {
        static_cast<std::uint16_t*>(values)[i] = bf16_of_float32(value);
      }
    }
  };
  switch (type) {
    case WeightType::float32:
      return each(float{}, [](float value) { return value; });
    case WeightType::bfloat16:
      return each(std::uint16_t{}, float32_of_bf16);
    case WeightType::float16:
      return each(std::uint16_t{}, float32_of_float16);
  }
}

class WeightsSource final : public io::TensorSource {
 public:
  explicit WeightsSource(FolderTensors tensors) : stored_(std::move(tensors)) {}

  [[nodiscard]] const FolderTensors& stored() const { return stored_; }

  /// What the model has of it, in these files.
  void take_layout(const FileLayout& layout, bool is_head_tied) {
    if (layout.is_mxfp4) join_mxfp4(stored_);
    if (is_head_tied) take_table_of_head(layout);
    infos_ = tensors_of_model(layout, stored_.list(), path());
    if (is_head_tied) std::erase_if(infos_, [](const io::TensorInfo& tensor) { return tensor.name == head_name; });
    map_ = TensorMap(layout, infos_, AdapterRanks::shared);
    for (const FileTensor& tensor : map_.files()) parts_.push_back(part_of(stored_.at(tensor.name)));
    for (io::TensorInfo& info : infos_) {
      const auto is_bf16 = [&](const Stripe& stripe) { return parts_[stripe.tensor].type == WeightType::bfloat16; };
      info.dtype = std::ranges::all_of(map_.tensor(info.name).stripes, is_bf16) ? DType::bf16 : DType::float32;
    }
    std::ranges::sort(infos_, [](const io::TensorInfo& left, const io::TensorInfo& right) {
      return ::strverscmp(left.name.c_str(), right.name.c_str()) < 0;  // layers.2 before layers.10
    });
  }

  /// Refuses files that do not hold the form that config.json says.
  void check_form(const Quantization& quantization, const FileLayout& layout) const {
    if (quantization.form != StoredForm::four_bits && quantization.form != StoredForm::fp8) return;
    const bool is_four_bits = quantization.form == StoredForm::four_bits;
    const auto refuse = [&](const std::string& which) {
      throw_data_error(fmt::format("{} is not stored as its config.json says", path()),
                       fmt::format("quantization_config is about {}, and {}", is_four_bits ? "4 bits" : "FP8", which),
                       "copy or download the folder again, or take quantization_config out of its config.json if its "
                       "weights are the numbers that were trained");
    };
    bool has_form = false;
    for (const Part& part : parts_) {
      const auto& [stored, file, codes] = *part.tensor;
      has_form = has_form || (codes != nullptr && codes->is_in_four_bits() == is_four_bits);
      if (!is_four_bits || codes != nullptr || !is_linear_of_block(stored.name, stored.shape.size())) continue;
      if (is_skipped(quantization, layout, stored.name.substr(0, stored.name.rfind('.')))) continue;
      refuse(fmt::format("{} holds plain numbers ({}), though llm_int8_skip_modules does not name it", stored.name,
                         stored.dtype));
    }
    if (!has_form) refuse("none of its matrices is in it");
  }

  [[nodiscard]] const std::string& path() const override { return stored_.folder(); }
  [[nodiscard]] std::vector<io::TensorInfo> tensors() const override { return infos_; }

  void read(const std::string& name, const io::Rectangle& where, DType dtype, void* values) const override {
    SFT_ENSURE(dtype == DType::float32 || dtype == DType::bf16, "weights are read as float32 or bf16");
    const std::vector<Run> runs = map_.runs(name, where);
    for (auto begin = runs.begin(); begin != runs.end();) {
      const Part& part = parts_[begin->tensor];
      // Runs that follow one another in the file are one read.
      auto end = begin + 1;
      std::int64_t count = begin->count;
      while (end != runs.end() && end->tensor == begin->tensor && end->first == begin->first + count &&
             count + end->count <= most_elements) {
        count += (end++)->count;
      }
      if (const CodedTensor* const codes = part.tensor->codes.get()) {
        std::vector<float> numbers(static_cast<std::size_t>(count));
        codes->read(begin->first, count, numbers.data());
        const float* from = numbers.data();
        for (; begin != end; ++begin) {
          put(from, *begin, dtype, values);
          from += begin->count;
        }
        continue;
      }
      const std::uint64_t element_bytes = size_bytes_of(part.type);
      std::vector<char> bytes(count * element_bytes);
      part.tensor->file->read(part.tensor->stored.begin + begin->first * element_bytes, bytes.size(), bytes.data());
      const char* from = bytes.data();
      for (; begin != end; ++begin) {
        convert(part.type, from, begin->count, dtype,
                static_cast<char*>(values) + begin->memory_first * size_of(dtype));
        from += begin->count * element_bytes;
      }
    }
  }

  /// Whether some matrix is in the 4 bits of bitsandbytes.
  [[nodiscard]] bool is_in_four_bits() const {
    return std::ranges::any_of(parts_, [](const Part& part) {
      return part.tensor->codes != nullptr && part.tensor->codes->is_in_four_bits();
    });
  }

  /// Whether read_four_bits() gives the matrix: its rows are rows of codes. Those of nested scales begin with one of
  /// the scales of scales, and follow one another.
  [[nodiscard]] bool has_four_bits(const std::string& name) const {
    const MappedTensor& tensor = map_.tensor(name);
    const std::int64_t width = tensor.width();
    const std::size_t file = tensor.stripes.front().tensor;
    const FolderTensor& part = *parts_[file].tensor;
    const std::optional<FourBitForm> form = part.codes == nullptr ? std::nullopt : part.codes->form();
    if (!form || part.stored.shape.back() != width) return false;
    constexpr std::int64_t nested_run = four_bit_block * nested_scale_block;
    if (form->is_nested && (tensor.stripes.size() > 1 || tensor.stripes.front().row_stride != width ||
                            tensor.stripes.front().first % nested_run != 0)) {
      return false;
    }
    return std::ranges::all_of(tensor.stripes, [&](const Stripe& stripe) {
      return stripe.tensor == file && stripe.column_stride == 1 && stripe.first % width == 0 &&
             stripe.row_stride % width == 0;
    });
  }

  [[nodiscard]] std::optional<FourBitMatrix> read_four_bits(const std::string& name) const override {
    if (!has_four_bits(name)) return std::nullopt;
    const MappedTensor& tensor = map_.tensor(name);
    const Stripe& first_stripe = tensor.stripes.front();
    const FolderTensor& part = *parts_[first_stripe.tensor].tensor;
    FourBitMatrix whole = part.codes->four_bits();
    if (part.stored.shape == tensor.shape && tensor.stripes.size() == 1) return whole;
    const std::int64_t width = tensor.width(), row_blocks = width / four_bit_block;
    FourBitMatrix rows{.form = whole.form, .codes = {}, .scales = {}, .scale_codes = {}, .nested = {}};
    const auto take_row = [&](auto& to, const auto& from, std::int64_t row, std::int64_t size) {
      if (!from.empty()) to.insert(to.end(), from.begin() + row * size, from.begin() + (row + 1) * size);
    };
    for (const Stripe& stripe : tensor.stripes) {
      for (std::int64_t i = 0; i < stripe.num_rows; ++i) {
        const std::int64_t row = (stripe.first + i * stripe.row_stride) / width;
        take_row(rows.codes, whole.codes, row, width / 2);
        take_row(rows.scales, whole.scales, row, row_blocks);
        take_row(rows.scale_codes, whole.scale_codes, row, row_blocks);
      }
    }
    if (whole.form.is_nested) {
      const auto begin = whole.nested.begin() + 1 + first_stripe.first / (four_bit_block * nested_scale_block);
      rows.nested = {whole.nested.front()};
      rows.nested.insert(rows.nested.end(), begin, begin + whole.form.num_nested(tensor.shape[0] * width) - 1);
    }
    return rows;
  }

  [[nodiscard]] bool has(const std::string& name) const { return map_.contains(name); }

 private:
  static constexpr std::int64_t most_elements = 1 << 18;  ///< that runs are joined to

  struct Part {
    const FolderTensor* tensor;
    WeightType type;
  };

  /// Puts the numbers of a run into the memory of a rectangle.
  static void put(const float* numbers, const Run& run, DType dtype, void* values) {
    for (std::int64_t i = 0; i < run.count; ++i) {
      const std::int64_t at = run.memory_first + i * run.memory_step;
      if (dtype == DType::float32) {
        static_cast<float*>(values)[at] = numbers[i];
      } else {
        static_cast<std::uint16_t*>(values)[at] = bf16_of_float32(numbers[i]);
      }
    }
  }

  /// The names of a tower's modules are those of transformers 4 or 5, whichever the files have.
  static bool is_skipped(const Quantization& quantization, const FileLayout& layout, const std::string& module) {
    if (quantization.skips(module)) return true;
    if (!layout.is_tower() || !module.starts_with(layout.body)) return false;
    const std::string rest = module.substr(layout.body.size());
    return quantization.skips("language_model.model." + rest) || quantization.skips("model.language_model." + rest);
  }

  /// A tied head without the table that it is: it is the table, as transformers takes it.
  void take_table_of_head(const FileLayout& layout) {
    const std::string table = layout.body + "embed_tokens.weight", head = layout.head + "weight";
    if (stored_.find(table) == nullptr && stored_.find(head) != nullptr) stored_.rename(head, table);
  }

  [[nodiscard]] Part part_of(const FolderTensor& tensor) const {
    const std::string& dtype = tensor.stored.dtype;
    if (dtype == "F32") return {&tensor, WeightType::float32};
    if (dtype == "BF16") return {&tensor, WeightType::bfloat16};
    if (dtype == "F16") return {&tensor, WeightType::float16};
    throw_data_error(fmt::format("tensor {} of {} has dtype {}", tensor.stored.name, tensor.file->path(), dtype),
                     "weights are read from F32, BF16 and F16, from FP8 with scales, and from the 4 bits of "
                     "bitsandbytes",
                     "give the model before it was quantized");
  }

  FolderTensors stored_;
  std::vector<io::TensorInfo> infos_;
  TensorMap map_;
  std::vector<Part> parts_;  ///< as map_.files()
};

}  // namespace

std::unique_ptr<io::TensorSource> open_weights(const std::string& folder, bool is_head_tied) {
  auto source = std::make_unique<WeightsSource>(read_folder_tensors(folder));
  const FileLayout layout = file_layout_of(folder, source->stored().list());
  source->take_layout(layout, is_head_tied);
  source->check_form(quantization_of(folder), layout);
  return source;
}

std::unique_ptr<io::TensorSource> open_adapter_weights(const std::string& folder, const FileLayout& base) {
  auto source = std::make_unique<WeightsSource>(FolderTensors(folder, find_adapter_files(folder)));
  source->take_layout(base, /*is_head_tied=*/false);
  return source;
}

std::optional<std::vector<std::string>> unquantized_modules(const std::string& folder, bool is_head_tied,
                                                            const std::vector<std::vector<std::string>>& groups) {
  WeightsSource source(read_folder_tensors(folder));
  source.take_layout(file_layout_of(folder, source.stored().list()), is_head_tied);
  if (!source.is_in_four_bits()) return std::nullopt;
  std::vector<std::string> modules;
  for (const std::vector<std::string>& group : groups) {
    const auto is_numbers = [&](const std::string& module) {
      const std::string name = "model/" + module + ".weight";
      return source.has(name) && !source.has_four_bits(name);
    };
    if (std::ranges::any_of(group, is_numbers)) modules.insert(modules.end(), group.begin(), group.end());
  }
  return modules;
}

void check_tied_head(const std::string& folder) {
  WeightsSource source(read_folder_tensors(folder));
  source.take_layout(file_layout_of(folder, source.stored().list()), /*is_head_tied=*/false);
  if (!source.has(head_name) || !source.has(embedding_name)) return;
  const auto refuse = [&](const std::string& why) {
    throw_data_error(fmt::format("the head of {} is not tied", folder), why,
                     "set tie_word_embeddings to false in its config.json, or remove lm_head.weight");
  };
  std::vector<std::int64_t> shape;
  for (const io::TensorInfo& tensor : source.tensors()) {
    if (tensor.name != head_name && tensor.name != embedding_name) continue;
    if (shape.empty()) shape = tensor.shape;
    if (tensor.shape != shape || shape.size() != 2) refuse("lm_head.weight has another shape than the embedding");
  }
  if (shape[0] == 0) return;
  std::vector<float> head(shape[1]), embedding(head.size());
  for (std::int64_t row = 0; row < shape[0]; ++row) {
    const io::Rectangle where{.row_begin = row, .num_rows = 1, .num_columns = shape[1]};
    source.read(head_name, where, DType::float32, head.data());
    source.read(embedding_name, where, DType::float32, embedding.data());
    if (std::memcmp(head.data(), embedding.data(), head.size() * sizeof(float)) != 0) {
      refuse(fmt::format("config.json ties it, but row {} of lm_head.weight differs from the embedding's", row));
    }
  }
}

}  // namespace sft::hub
