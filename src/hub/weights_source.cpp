// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <algorithm>
#include <cstring>
#include <map>
#include <set>
#include <vector>

#include "number_formats.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/hub/weights.hpp"
#include "weight_files.hpp"

namespace sft::hub {

namespace {

constexpr const char* embedding_name = "model.embed_tokens.weight";
constexpr const char* head_name = "lm_head.weight";

/// Frequencies that transformers once stored and now leaves unread.
bool is_old_buffer(const std::string& name) { return name.ends_with(".rotary_emb.inv_freq"); }

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
  WeightsSource(const std::string& folder, const WeightFiles& found, bool is_head_tied) : folder_(folder) {
    for (const std::string& path : found.paths) add_file(path, found, is_head_tied);
    for (const auto& [name, path] : found.path_of) {
      if (!all_names_.contains(name)) {
        throw_data_error(fmt::format("{} has no tensor {}", path, name), found.index + " says that it does",
                         "copy or download the folder again");
      }
    }
  }

  [[nodiscard]] const std::string& path() const override { return folder_; }

  [[nodiscard]] std::vector<io::TensorInfo> tensors() const override {
    std::vector<io::TensorInfo> infos;
    for (const auto& [name, tensor] : tensors_) {
      const DType dtype = tensor.type == WeightType::bfloat16 ? DType::bf16 : DType::float32;
      infos.push_back({"model/" + name, tensor.stored.shape, dtype});
    }
    std::ranges::sort(infos, [](const io::TensorInfo& left, const io::TensorInfo& right) {
      return ::strverscmp(left.name.c_str(), right.name.c_str()) < 0;  // layers.2 before layers.10
    });
    return infos;
  }

  void read(const std::string& name, const io::Rectangle& where, DType dtype, void* values) const override {
    SFT_ENSURE(dtype == DType::float32 || dtype == DType::bf16, "weights are read as float32 or bf16");
    const StoredWeight& tensor = tensors_.at(name.substr(name.find('/') + 1));
    const std::vector<std::int64_t>& shape = tensor.stored.shape;
    const std::int64_t width = shape.size() > 1 ? shape[1] : 1;
    const std::uint64_t element_bytes = tensor.type == WeightType::float32 ? 4 : 2;
    const bool is_contiguous = where.num_columns == width;
    const std::int64_t num_runs = is_contiguous ? 1 : where.num_rows;
    const std::size_t run = is_contiguous ? where.num_elements() : where.num_columns;
    std::vector<char> bytes(run * element_bytes);
    for (std::int64_t i = 0; i < num_runs; ++i) {
      const auto first = static_cast<std::uint64_t>((where.row_begin + i) * width + where.column_begin);
      files_[tensor.file].read(tensor.stored.begin + first * element_bytes, bytes.size(), bytes.data());
      convert(tensor.type, bytes.data(), run, dtype, static_cast<char*>(values) + i * run * size_of(dtype));
    }
  }

  [[nodiscard]] bool has(const char* name) const { return tensors_.contains(name); }

 private:
  struct StoredWeight {
    StoredTensor stored;
    WeightType type = WeightType::float32;
    std::size_t file = 0;
  };

  void add_file(const std::string& path, const WeightFiles& found, bool is_head_tied) {
    files_.push_back(io::RawFile::open(path));
    for (StoredTensor& stored : read_safetensors_header(files_.back())) {
      const std::string name = stored.name;
      if (!found.index.empty()) {
        const auto place = found.path_of.find(name);
        if (place == found.path_of.end() || place->second != path) {
          throw_data_error(fmt::format("{} holds tensor {}", path, name), found.index + " does not say so",
                           "copy or download the folder again");
        }
      }
      all_names_.insert(name);
      if (is_old_buffer(name) || (is_head_tied && name == head_name)) continue;
      const WeightType type = type_of(stored, path);
      tensors_.emplace(name, StoredWeight{std::move(stored), type, files_.size() - 1});
    }
  }

  static WeightType type_of(const StoredTensor& stored, const std::string& path) {
    if (stored.dtype == "F32") return WeightType::float32;
    if (stored.dtype == "BF16") return WeightType::bfloat16;
    if (stored.dtype == "F16") return WeightType::float16;
    throw_data_error(fmt::format("tensor {} of {} has dtype {}", stored.name, path, stored.dtype),
                     "weights are read from F32, BF16 and F16; other types belong to quantized models",
                     "give the model before it was quantized");
  }

  std::string folder_;
  std::vector<io::RawFile> files_;
  std::map<std::string, StoredWeight> tensors_;
  std::set<std::string> all_names_;  ///< those left out as well
};

}  // namespace

std::unique_ptr<io::TensorSource> open_weights(const std::string& folder, bool is_head_tied) {
  return std::make_unique<WeightsSource>(folder, find_weight_files(folder), is_head_tied);
}

std::unique_ptr<io::TensorSource> open_adapter_weights(const std::string& folder) {
  return std::make_unique<WeightsSource>(folder, find_adapter_files(folder), /*is_head_tied=*/false);
}

void check_tied_head(const std::string& folder) {
  const WeightsSource source(folder, find_weight_files(folder), /*is_head_tied=*/false);
  if (!source.has(head_name) || !source.has(embedding_name)) return;
  const auto refuse = [&](const std::string& why) {
    throw_data_error(fmt::format("the head of {} is not tied", folder), why,
                     "set tie_word_embeddings to false in its config.json, or remove lm_head.weight");
  };
  std::vector<std::int64_t> shape;
  for (const io::TensorInfo& tensor : source.tensors()) {
    if (tensor.name != std::string("model/") + head_name && tensor.name != std::string("model/") + embedding_name) {
      continue;
    }
    if (shape.empty()) shape = tensor.shape;
    if (tensor.shape != shape || shape.size() != 2) refuse("lm_head.weight has another shape than the embedding");
  }
  if (shape[0] == 0) return;
  std::vector<float> head(static_cast<std::size_t>(shape[1])), embedding(head.size());
  for (std::int64_t row = 0; row < shape[0]; ++row) {
    const io::Rectangle where{.row_begin = row, .num_rows = 1, .num_columns = shape[1]};
    source.read(std::string("model/") + head_name, where, DType::float32, head.data());
    source.read(std::string("model/") + embedding_name, where, DType::float32, embedding.data());
    if (std::memcmp(head.data(), embedding.data(), head.size() * sizeof(float)) != 0) {
      refuse(fmt::format("config.json ties it, but row {} of lm_head.weight differs from the embedding's", row));
    }
  }
}

}  // namespace sft::hub
