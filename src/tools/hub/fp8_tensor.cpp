// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <algorithm>
#include <array>
#include <cstring>
#include <functional>
#include <mutex>
#include <set>
#include <utility>

#include "folder_tensors.hpp"
#include "fp8.hpp"
#include "number_formats.hpp"
#include "quantization.hpp"
#include "sft/core/error.hpp"

namespace sft::hub {

namespace {

/// Values of all codes of a byte.
using CodeTable = std::array<float, 256>;

const CodeTable& table_of(const std::string& dtype) {
  const auto make = [](const std::function<float(std::uint8_t)>& number_of) {
    CodeTable table{};
    for (std::size_t code = 0; code < table.size(); ++code) table[code] = number_of(static_cast<std::uint8_t>(code));
    return table;
  };
  static const CodeTable e4m3 = make(float32_of_e4m3), e5m2 = make(float32_of_e5m2);
  return dtype == "F8_E5M2" ? e5m2 : e4m3;
}

bool is_fp8(const FolderTensor& tensor) {
  return tensor.codes == nullptr && (tensor.stored.dtype == "F8_E4M3" || tensor.stored.dtype == "F8_E5M2");
}

/// How elements share scales: element (i, j) has that of (i / rows, j / columns), row-major.
struct Grid {
  std::int64_t rows = 1, columns = 1, width = 1;  ///< width: scales of a row of them
};

/// A matrix of 8-bit floats.
class Fp8Tensor final : public CodedTensor {
 public:
  Fp8Tensor(FolderTensor codes, FolderTensor scales, const Grid& grid)
      : table_(table_of(codes.stored.dtype)), codes_(std::move(codes)), scales_(std::move(scales)), grid_(grid) {}

  [[nodiscard]] WeightType type() const override { return WeightType::bfloat16; }

  void read(std::int64_t first, std::int64_t count, float* values) const override {
    if (count == 0) return;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(count));
    codes_.file->read(codes_.stored.begin + first, codes.size(), codes.data());
    const std::int64_t width = codes_.stored.shape[1], first_row = first / width;
    const std::int64_t first_scales = first_row / grid_.rows, last_scales = (first + count - 1) / width / grid_.rows;
    const std::vector<float> scales = read_scales(first_scales * grid_.width, (last_scales + 1) * grid_.width);
    std::int64_t row = first_row, column = first % width;
    for (std::int64_t i = 0; i < count;) {
      const float* const of_row = scales.data() + (row / grid_.rows - first_scales) * grid_.width;
      const std::int64_t end = std::min(width - column, count - i);
      for (std::int64_t j = 0; j < end; ++j, ++i) {
        const float number = table_[codes[i]] * of_row[(column + j) / grid_.columns];
        values[i] = float32_of_bf16(bf16_of_float32(number));
      }
      column = 0;
      ++row;
    }
  }

 private:
  /// Scales [begin, end). Those that were read last are kept, for a rank that has some columns reads row by row.
  [[nodiscard]] std::vector<float> read_scales(std::int64_t begin, std::int64_t end) const {
    const std::scoped_lock held(lock_);
    if (begin != last_begin_ || std::cmp_not_equal(last_.size(), end - begin)) {
      last_begin_ = -1;
      last_ = read_stored(begin, end - begin);
      last_begin_ = begin;
    }
    return last_;
  }

  [[nodiscard]] std::vector<float> read_stored(std::int64_t begin, std::int64_t count) const {
    const std::string& dtype = scales_.stored.dtype;
    const std::size_t size = dtype == "F32" ? 4 : dtype == "BF16" || dtype == "F16" ? 2 : 1;
    std::vector<char> bytes(static_cast<std::size_t>(count) * size);
    scales_.file->read(scales_.stored.begin + begin * size, bytes.size(), bytes.data());
    std::vector<float> scales(static_cast<std::size_t>(count));
    if (dtype == "F32") {
      std::memcpy(scales.data(), bytes.data(), bytes.size());
      return scales;
    }
    for (std::size_t i = 0; i < scales.size(); ++i) {
      std::uint16_t half = 0;
      std::memcpy(&half, bytes.data() + i * size, size);
      scales[i] = dtype == "BF16"  ? float32_of_bf16(half)
                  : dtype == "F16" ? float32_of_float16(half)
                                   : float32_of_e8m0(static_cast<std::uint8_t>(bytes[i]));
    }
    return scales;
  }

  const CodeTable& table_;
  FolderTensor codes_, scales_;
  Grid grid_;
  mutable std::mutex lock_;
  mutable std::int64_t last_begin_ = -1;
  mutable std::vector<float> last_;
};

/// How the scales of a matrix are meant, by their shape.
Grid grid_of(const FolderTensor& codes, const FolderTensor& scales, const Quantization& quantization,
             const std::string& folder) {
  using Shape = std::vector<std::int64_t>;
  const Shape &shape = codes.stored.shape, &given = scales.stored.shape;
  const auto refuse = [&](const std::string& why) {
    throw_data_error(fmt::format("tensor {} of {} cannot be read in FP8", codes.stored.name, folder), why,
                     "copy or download the folder again, or give the model before it was quantized");
  };
  constexpr std::array dtypes{"F32", "BF16", "F16", "F8_E8M0", "U8"};
  if (shape.size() != 2) refuse(fmt::format("it has {} dims, and a matrix has 2", shape.size()));
  if (std::ranges::find(dtypes, scales.stored.dtype) == dtypes.end()) {
    refuse(fmt::format("{} is of {}", scales.stored.name, scales.stored.dtype));
  }
  const std::int64_t rows = shape[0], columns = shape[1];
  const auto num_blocks = [](std::int64_t size, std::int64_t block) { return size / block + (size % block != 0); };
  const Shape blocks{num_blocks(rows, quantization.block_rows), num_blocks(columns, quantization.block_columns)};
  if (given == blocks) return {quantization.block_rows, quantization.block_columns, blocks[1]};
  const bool is_one = std::ranges::all_of(given, [](std::int64_t size) { return size == 1; });
  if (is_one) return {std::max<std::int64_t>(rows, 1), std::max<std::int64_t>(columns, 1), 1};
  if (given == Shape{rows} || given == Shape{rows, 1}) return {1, std::max<std::int64_t>(columns, 1), 1};
  refuse(fmt::format("{} has the shape ({}), where blocks of {} x {} make ({}), rows ({}, 1) and one scale (1)",
                     scales.stored.name, fmt::join(given, ", "), quantization.block_rows, quantization.block_columns,
                     fmt::join(blocks, ", "), rows));
  return {};
}

/// Scales of activations and of caches, which say nothing of the weights.
bool is_of_inference(const std::string& name) {
  constexpr std::array suffixes{".activation_scale", ".input_scale", ".input_scale_ub", ".output_scale",
                                ".k_scale",          ".v_scale",     ".q_scale",        ".kv_scale"};
  return std::ranges::any_of(suffixes, [&](const char* suffix) { return name.ends_with(suffix); });
}

}  // namespace

void join_fp8(FolderTensors& tensors, const Quantization& quantization) {
  std::set<std::string> joined;
  for (const std::string& name : tensors.names()) {
    const FolderTensor& codes = tensors.at(name);
    if (quantization.form == StoredForm::fp8 && is_of_inference(name)) joined.insert(name);
    if (!is_fp8(codes)) continue;
    const FolderTensor* scales = tensors.find(name + "_scale_inv");
    if (scales == nullptr) scales = tensors.find(name + "_scale");
    if (scales == nullptr) {
      throw_data_error(fmt::format("tensor {} of {} has dtype {}", name, tensors.folder(), codes.stored.dtype),
                       fmt::format("8-bit floats have scales, and there is neither {0}_scale_inv nor {0}_scale", name),
                       "copy or download the folder again, or give the model before it was quantized");
    }
    joined.insert(scales->stored.name);
    const Grid grid = grid_of(codes, *scales, quantization, tensors.folder());
    tensors.set_codes(name, codes.stored.shape, std::make_shared<Fp8Tensor>(codes, *scales, grid));
  }
  tensors.remove(joined);
}

}  // namespace sft::hub
