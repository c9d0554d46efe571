// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <stdexcept>
#include <vector>

#include "mxfp4.hpp"
#include "nf4.hpp"
#include "number_formats.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"
#include "sft/hub/tensor_map.hpp"
#include "sft/hub/weights.hpp"
#include "weight_files.hpp"

namespace sft::hub {

namespace {

constexpr const char* embedding_name = "model/model.embed_tokens.weight";
constexpr const char* head_name = "model/lm_head.weight";

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

constexpr const char* blocks_suffix = "_blocks";
constexpr const char* scales_suffix = "_scales";
constexpr const char* mxfp4_dtype = "MXFP4";
constexpr const char* four_bit_dtype = "4 bits";

class WeightsSource final : public io::TensorSource {
 public:
  WeightsSource(const std::string& folder, const WeightFiles& found) : folder_(folder) {
    for (const std::string& path : found.paths) add_file(path, found);
    for (const auto& [name, path] : found.path_of) {
      if (!all_names_.contains(name)) {
        throw_data_error(fmt::format("{} has no tensor {}", path, name), found.index + " says that it does",
                         "copy or download the folder again");
      }
    }
  }

  [[nodiscard]] const std::vector<FileTensor>& files() const { return tensors_in_files_; }

  /// What the model has of it, in these files.
  void take_layout(const FileLayout& layout, bool is_head_tied) {
    if (layout.is_mxfp4) join_blocks();
    join_four_bits();
    infos_ = tensors_of_model(layout, tensors_in_files_, folder_);
    if (is_head_tied) std::erase_if(infos_, [](const io::TensorInfo& tensor) { return tensor.name == head_name; });
    map_ = TensorMap(layout, infos_, AdapterRanks::shared);
    for (const FileTensor& tensor : map_.files()) parts_.push_back(&part_of(tensor.name));
    for (io::TensorInfo& info : infos_) {
      const auto is_bf16 = [&](const Stripe& stripe) { return parts_[stripe.tensor]->type == WeightType::bfloat16; };
      info.dtype = std::ranges::all_of(map_.tensor(info.name).stripes, is_bf16) ? DType::bf16 : DType::float32;
    }
    std::ranges::sort(infos_, [](const io::TensorInfo& left, const io::TensorInfo& right) {
      return ::strverscmp(left.name.c_str(), right.name.c_str()) < 0;  // layers.2 before layers.10
    });
  }

  [[nodiscard]] const std::string& path() const override { return folder_; }
  [[nodiscard]] std::vector<io::TensorInfo> tensors() const override { return infos_; }

  void read(const std::string& name, const io::Rectangle& where, DType dtype, void* values) const override {
    SFT_ENSURE(dtype == DType::float32 || dtype == DType::bf16, "weights are read as float32 or bf16");
    const std::vector<Run> runs = map_.runs(name, where);
    for (auto begin = runs.begin(); begin != runs.end();) {
      const StoredWeight& part = *parts_[begin->tensor];
      if (part.four_bits) {
        read_four_bit_run(part, *begin, dtype, values);
        ++begin;
        continue;
      }
      if (part.scales) {
        read_blocks(begin->tensor, *begin, dtype, values);
        ++begin;
        continue;
      }
      // Runs that follow one another in the file are one read.
      auto end = begin + 1;
      std::int64_t count = begin->count;
      while (end != runs.end() && end->tensor == begin->tensor && end->first == begin->first + count &&
             count + end->count <= most_elements) {
        count += (end++)->count;
      }
      const std::uint64_t element_bytes = part.type == WeightType::float32 ? 4 : 2;
      std::vector<char> bytes(count * element_bytes);
      files_[part.file].read(part.stored.begin + begin->first * element_bytes, bytes.size(), bytes.data());
      const char* from = bytes.data();
      for (; begin != end; ++begin) {
        convert(part.type, from, begin->count, dtype,
                static_cast<char*>(values) + begin->memory_first * size_of(dtype));
        from += begin->count * element_bytes;
      }
    }
  }

  [[nodiscard]] std::optional<FourBitMatrix> read_four_bits(const std::string& name) const override {
    const MappedTensor& tensor = map_.tensor(name);
    const Stripe& stripe = tensor.stripes.front();
    const StoredWeight& part = *parts_[stripe.tensor];
    const bool is_whole = tensor.stripes.size() == 1 && part.four_bits && stripe.first == 0 &&
                          stripe.column_stride == 1 && stripe.row_stride == tensor.width() &&
                          part.four_bits->state.shape == tensor.shape;
    if (!is_whole) return std::nullopt;
    const FourBitState& state = part.four_bits->state;
    const std::optional<FourBitForm> form = form_of(state);
    if (!form) return std::nullopt;
    FourBitMatrix matrix{.form = *form, .codes = {}, .scales = {}, .scale_codes = {}, .nested = {}};
    matrix.codes.resize(static_cast<std::size_t>(state.num_elements() / 2));
    files_[part.file].read(part.stored.begin, matrix.codes.size(), matrix.codes.data());
    const io::RawFile& file = files_[part.four_bits->scales_file];
    const auto num_scales = static_cast<std::size_t>(state.num_scales());
    if (form->is_nested) {
      matrix.scale_codes.resize(num_scales);
      file.read(part.four_bits->scales.begin, num_scales, matrix.scale_codes.data());
      matrix.nested = {state.nested_offset};
      matrix.nested.insert(matrix.nested.end(), state.nested_scales.begin(), state.nested_scales.end());
    } else {
      matrix.scales.resize(num_scales);
      file.read(part.four_bits->scales.begin, num_scales * sizeof(float), matrix.scales.data());
    }
    return matrix;
  }

  [[nodiscard]] bool has(const std::string& name) const { return map_.contains(name); }

 private:
  static constexpr std::int64_t most_elements = 1 << 18;  ///< that runs are joined to

  /// A matrix in 4 bits, and where its scales, or their codes, lie.
  struct FourBits {
    FourBitState state;
    StoredTensor scales;
    std::size_t scales_file = 0;
  };

  struct StoredWeight {
    StoredTensor stored;
    WeightType type = WeightType::float32;
    std::size_t file = 0;
    std::string path;
    std::optional<StoredTensor> scales = {};  ///< of MXFP4, whose blocks `stored` is
    std::size_t scales_file = 0;
    std::optional<FourBits> four_bits = {};
  };

  /// The matrix of an expert in MXFP4 that was read last: what asks for it goes through it row by row.
  struct ReadBlocks {
    std::mutex lock;
    std::size_t tensor = 0;
    std::int64_t matrix = -1;
    std::vector<std::uint8_t> blocks, scales;
  };

  void add_file(const std::string& path, const WeightFiles& found) {
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
      if (is_old_buffer(name)) continue;
      tensors_in_files_.push_back({name, stored.dtype, stored.shape, stored.end - stored.begin});
      stored_.emplace(name, StoredWeight{std::move(stored), WeightType::float32, files_.size() - 1, path});
    }
  }

  /// Blocks and scales become one tensor, (experts, out, in).
  void join_blocks() {
    std::vector<FileTensor> joined;
    for (FileTensor& tensor : tensors_in_files_) {
      if (tensor.name.ends_with(scales_suffix)) continue;
      if (!tensor.name.ends_with(blocks_suffix)) {
        joined.push_back(std::move(tensor));
        continue;
      }
      const std::string name = tensor.name.substr(0, tensor.name.size() - std::strlen(blocks_suffix));
      const auto scales = stored_.find(name + scales_suffix);
      std::vector<std::int64_t> expected = tensor.shape;
      if (!expected.empty()) expected.pop_back();
      const bool is_whole = scales != stored_.end() && expected.size() == 3 && tensor.dtype == "U8" &&
                            tensor.shape.back() == mxfp4_block_bytes && scales->second.stored.dtype == "U8" &&
                            scales->second.stored.shape == expected;
      if (!is_whole) {
        throw_data_error(fmt::format("tensor {} of {} cannot be read as MXFP4", tensor.name, folder_),
                         "it is (experts, rows, blocks, 16) of U8, and has scales (experts, rows, blocks)",
                         "copy or download the folder again");
      }
      StoredWeight weight = stored_.at(tensor.name);
      weight.scales = scales->second.stored;
      weight.scales_file = scales->second.file;
      expected.back() *= mxfp4_block;
      joined.push_back({name, mxfp4_dtype, expected, tensor.num_bytes});
      weight.stored.name = name;
      weight.stored.shape = expected;
      weight.stored.dtype = mxfp4_dtype;
      stored_.emplace(name, std::move(weight));
    }
    tensors_in_files_ = std::move(joined);
  }

  /// Matrices in 4 bits take the place of the tensors that they are stored as.
  void join_four_bits() {
    std::set<std::string> joined;
    const std::vector<std::string>& suffixes = four_bit_suffixes();
    for (auto& [name, weight] : stored_) {
      for (const std::string& suffix : {suffixes[0], suffixes[1]}) {
        const auto state = stored_.find(name + suffix);
        if (state == stored_.end()) continue;
        weight.four_bits = four_bits_of(name, weight, state->second);
        weight.stored.shape = weight.four_bits->state.shape;
        weight.stored.dtype = four_bit_dtype;
        for (const std::string& beside : suffixes) joined.insert(name + beside);
      }
    }
    std::erase_if(tensors_in_files_, [&](const FileTensor& tensor) { return joined.contains(tensor.name); });
    for (FileTensor& tensor : tensors_in_files_) {
      const StoredWeight& weight = stored_.at(tensor.name);
      if (!weight.four_bits) continue;
      tensor.shape = weight.stored.shape;
      tensor.dtype = four_bit_dtype;
    }
  }

  FourBits four_bits_of(const std::string& name, const StoredWeight& codes, const StoredWeight& state) const {
    const auto refuse = [&](const std::string& why) {
      throw_data_error(fmt::format("tensor {} of {} cannot be read in 4 bits", name, folder_), why,
                       "copy or download the folder again, or give the model before it was quantized");
    };
    const auto size_of_stored = [](const StoredTensor& stored) {
      return static_cast<std::int64_t>(stored.end - stored.begin);
    };
    const auto beside = [&](const char* suffix) -> const StoredWeight& {
      const auto found = stored_.find(name + suffix);
      if (found == stored_.end()) refuse(fmt::format("it has no {}{}", name, suffix));
      return found->second;
    };
    const auto floats_of = [&](const char* suffix, std::int64_t count) {
      const StoredWeight& part = beside(suffix);
      std::vector<float> values(static_cast<std::size_t>(count));
      if (part.stored.dtype != "F32" || size_of_stored(part.stored) != 4 * count) {
        refuse(fmt::format("{}{} should have {} numbers of F32", name, suffix, count));
      }
      files_[part.file].read(part.stored.begin, values.size() * sizeof(float), values.data());
      return values;
    };
    FourBits result;
    std::string json(static_cast<std::size_t>(size_of_stored(state.stored)), ' ');
    files_[state.file].read(state.stored.begin, json.size(), json.data());
    try {
      result.state = parse_four_bit_state(json);
    } catch (const std::invalid_argument& reason) {
      refuse(fmt::format("{} says what bitsandbytes does not: {}", state.stored.name, reason.what()));
    }
    FourBitState& found = result.state;
    if (codes.stored.dtype != "U8" || size_of_stored(codes.stored) != (found.num_elements() + 1) / 2) {
      refuse("two of its numbers take a byte of U8");
    }
    const StoredWeight& scales = beside(".absmax");
    const std::int64_t scale_bytes = found.is_nested() ? 1 : 4;
    if (scales.stored.dtype != (found.is_nested() ? "U8" : "F32") ||
        size_of_stored(scales.stored) != scale_bytes * found.num_scales()) {
      refuse(fmt::format("{}.absmax should have {} numbers", name, found.num_scales()));
    }
    result.scales = scales.stored;
    result.scales_file = scales.file;
    found.table = floats_of(".quant_map", 16);
    if (found.is_nested()) {
      found.nested_table = floats_of(".nested_quant_map", 256);
      found.nested_scales =
          floats_of(".nested_absmax", (found.num_scales() + found.nested_block - 1) / found.nested_block);
    }
    return result;
  }

  void read_four_bit_run(const StoredWeight& part, const Run& run, DType dtype, void* values) const {
    if (run.count == 0) return;
    const FourBitState& state = part.four_bits->state;
    const std::int64_t first_byte = run.first / 2, last_byte = (run.first + run.count - 1) / 2;
    const std::int64_t first_block = run.first / state.block;
    const std::int64_t num_blocks = (run.first + run.count - 1) / state.block - first_block + 1;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(last_byte - first_byte + 1));
    files_[part.file].read(part.stored.begin + first_byte, codes.size(), codes.data());
    std::vector<float> scales(static_cast<std::size_t>(num_blocks)), numbers(static_cast<std::size_t>(run.count));
    const io::RawFile& file = files_[part.four_bits->scales_file];
    const std::uint64_t scales_begin = part.four_bits->scales.begin;
    if (state.is_nested()) {
      std::vector<std::uint8_t> scale_codes(scales.size());
      file.read(scales_begin + first_block, scale_codes.size(), scale_codes.data());
      for (std::int64_t i = 0; i < num_blocks; ++i) scales[i] = state.scale_of(scale_codes[i], first_block + i);
    } else {
      file.read(scales_begin + first_block * sizeof(float), scales.size() * sizeof(float), scales.data());
    }
    hub::read_four_bits(state, run.first, run.count, codes.data(), scales.data(), numbers.data());
    for (std::int64_t i = 0; i < run.count; ++i) {
      float value = numbers[i];
      if (part.type == WeightType::bfloat16) value = float32_of_bf16(bf16_of_float32(value));
      if (part.type == WeightType::float16) value = float32_of_float16(float16_of_float32(value));
      const std::int64_t at = run.memory_first + i * run.memory_step;
      if (dtype == DType::float32) {
        static_cast<float*>(values)[at] = value;
      } else {
        static_cast<std::uint16_t*>(values)[at] = bf16_of_float32(value);
      }
    }
  }

  const StoredWeight& part_of(const std::string& name) {
    StoredWeight& weight = stored_.at(name);
    weight.type = type_of(weight);
    return weight;
  }

  void read_blocks(std::size_t tensor, const Run& run, DType dtype, void* values) const {
    const StoredWeight& part = *parts_[tensor];
    const std::int64_t size = part.stored.shape[1] * part.stored.shape[2], matrix = run.first / size;
    const std::scoped_lock held(last_blocks_->lock);
    if (last_blocks_->matrix != matrix || last_blocks_->tensor != tensor) {
      last_blocks_->matrix = -1;
      last_blocks_->blocks.resize(size / 2);
      last_blocks_->scales.resize(size / mxfp4_block);
      files_[part.file].read(part.stored.begin + matrix * last_blocks_->blocks.size(), last_blocks_->blocks.size(),
                             last_blocks_->blocks.data());
      files_[part.scales_file].read(part.scales->begin + matrix * last_blocks_->scales.size(),
                                    last_blocks_->scales.size(), last_blocks_->scales.data());
      last_blocks_->matrix = matrix;
      last_blocks_->tensor = tensor;
    }
    for (std::int64_t i = 0; i < run.count; ++i) {
      const float value =
          mxfp4_value(last_blocks_->blocks.data(), last_blocks_->scales.data(), run.first - matrix * size + i);
      const std::int64_t at = run.memory_first + i * run.memory_step;
      if (dtype == DType::float32) {
        static_cast<float*>(values)[at] = value;
      } else {
        static_cast<std::uint16_t*>(values)[at] = bf16_of_float32(value);
      }
    }
  }

  static WeightType type_of(const StoredWeight& weight) {
    const StoredTensor& stored = weight.stored;
    if (weight.four_bits) return weight.four_bits->state.type;
    if (stored.dtype == "F32" || stored.dtype == mxfp4_dtype) return WeightType::float32;
    if (stored.dtype == "BF16") return WeightType::bfloat16;
    if (stored.dtype == "F16") return WeightType::float16;
    throw_data_error(fmt::format("tensor {} of {} has dtype {}", stored.name, weight.path, stored.dtype),
                     "weights are read from F32, BF16 and F16, and from the 4 bits of bitsandbytes",
                     "give the model before it was quantized");
  }

  std::string folder_;
  std::vector<io::RawFile> files_;
  std::vector<FileTensor> tensors_in_files_;    ///< but for those left out
  std::map<std::string, StoredWeight> stored_;  ///< by their names
  std::set<std::string> all_names_;             ///< those left out as well
  std::vector<io::TensorInfo> infos_;
  TensorMap map_;
  std::vector<const StoredWeight*> parts_;  ///< as map_.files()
  std::unique_ptr<ReadBlocks> last_blocks_ = std::make_unique<ReadBlocks>();
};

}  // namespace

std::unique_ptr<io::TensorSource> open_weights(const std::string& folder, bool is_head_tied) {
  auto source = std::make_unique<WeightsSource>(folder, find_weight_files(folder));
  source->take_layout(file_layout_of(folder, source->files()), is_head_tied);
  return source;
}

std::unique_ptr<io::TensorSource> open_adapter_weights(const std::string& folder, const FileLayout& base) {
  auto source = std::make_unique<WeightsSource>(folder, find_adapter_files(folder));
  source->take_layout(base, /*is_head_tied=*/false);
  return source;
}

void check_tied_head(const std::string& folder) {
  WeightsSource source(folder, find_weight_files(folder));
  source.take_layout(file_layout_of(folder, source.files()), /*is_head_tied=*/false);
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
