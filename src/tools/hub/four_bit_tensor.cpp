// SPDX-License-Identifier: Apache-2.0
#include <fmt/core.h>
#include <array>
#include <set>
#include <stdexcept>
#include <utility>

#include "folder_tensors.hpp"
#include "nf4.hpp"
#include "number_formats.hpp"
#include "sft/core/ensure.hpp"
#include "sft/core/error.hpp"

namespace sft::hub {

namespace {

/// A matrix in the 4 bits of bitsandbytes.
class FourBitTensor final : public CodedTensor {
 public:
  /// `scales`: of blocks, or their codes.
  FourBitTensor(FourBitState state, FolderTensor codes, FolderTensor scales)
      : state_(std::move(state)), codes_(std::move(codes)), scales_(std::move(scales)) {}

  [[nodiscard]] WeightType type() const override { return state_.type; }
  [[nodiscard]] bool is_in_four_bits() const override { return true; }

  void read(std::int64_t first, std::int64_t count, float* values) const override {
    if (count == 0) return;
    const std::int64_t first_byte = first / 2, last_byte = (first + count - 1) / 2;
    const std::int64_t first_block = first / state_.block;
    const std::int64_t num_blocks = (first + count - 1) / state_.block - first_block + 1;
    std::vector<std::uint8_t> codes(static_cast<std::size_t>(last_byte - first_byte + 1));
    codes_.file->read(codes_.stored.begin + first_byte, codes.size(), codes.data());
    std::vector<float> scales(static_cast<std::size_t>(num_blocks));
    const std::uint64_t begin = scales_.stored.begin;
    if (state_.is_nested()) {
      std::vector<std::uint8_t> scale_codes(scales.size());
      scales_.file->read(begin + first_block, scale_codes.size(), scale_codes.data());
      for (std::int64_t i = 0; i < num_blocks; ++i) scales[i] = state_.scale_of(scale_codes[i], first_block + i);
    } else {
      scales_.file->read(begin + first_block * sizeof(float), scales.size() * sizeof(float), scales.data());
    }
    read_four_bits(state_, first, count, codes.data(), scales.data(), values);
    for (std::int64_t i = 0; i < count; ++i) {
      if (state_.type == WeightType::bfloat16) values[i] = float32_of_bf16(bf16_of_float32(values[i]));
      if (state_.type == WeightType::float16) values[i] = float32_of_float16(float16_of_float32(values[i]));
    }
  }

  [[nodiscard]] std::optional<FourBitForm> form() const override { return form_of(state_); }

  [[nodiscard]] FourBitMatrix four_bits() const override {
    const std::optional<FourBitForm> form = form_of(state_);
    SFT_ENSURE(form.has_value(), "codes are taken in a form that they can be kept in");
    FourBitMatrix matrix{.form = *form, .codes = {}, .scales = {}, .scale_codes = {}, .nested = {}};
    matrix.codes.resize(static_cast<std::size_t>(state_.num_elements() / 2));
    codes_.file->read(codes_.stored.begin, matrix.codes.size(), matrix.codes.data());
    const auto num_scales = static_cast<std::size_t>(state_.num_scales());
    if (form->is_nested) {
      matrix.scale_codes.resize(num_scales);
      scales_.file->read(scales_.stored.begin, num_scales, matrix.scale_codes.data());
      matrix.nested = {state_.nested_offset};
      matrix.nested.insert(matrix.nested.end(), state_.nested_scales.begin(), state_.nested_scales.end());
    } else {
      matrix.scales.resize(num_scales);
      scales_.file->read(scales_.stored.begin, num_scales * sizeof(float), matrix.scales.data());
    }
    return matrix;
  }

 private:
  FourBitState state_;
  FolderTensor codes_, scales_;
};

/// Makes a matrix of the tensors that it is stored as.
class Joiner {
 public:
  Joiner(const FolderTensors& tensors, std::string name) : tensors_(tensors), name_(std::move(name)) {}

  [[nodiscard]] FourBitState read_state(const FolderTensor& state) const {
    std::string json(static_cast<std::size_t>(state.num_stored_bytes()), ' ');
    state.file->read(state.stored.begin, json.size(), json.data());
    FourBitState result;
    try {
      result = parse_four_bit_state(json);
    } catch (const std::invalid_argument& reason) {
      refuse(fmt::format("{} says what bitsandbytes does not: {}", state.stored.name, reason.what()));
    }
    check_codes(result);
    result.table = floats_of(".quant_map", 16);
    if (result.is_nested()) {
      result.nested_table = floats_of(".nested_quant_map", 256);
      result.nested_scales =
          floats_of(".nested_absmax", (result.num_scales() + result.nested_block - 1) / result.nested_block);
    }
    return result;
  }

  [[nodiscard]] const FolderTensor& scales(const FourBitState& state) const {
    const FolderTensor& scales = beside(".absmax");
    const auto size = static_cast<std::uint64_t>(state.num_scales()) * (state.is_nested() ? 1 : sizeof(float));
    if (scales.stored.dtype != (state.is_nested() ? "U8" : "F32") || scales.num_stored_bytes() != size) {
      refuse(fmt::format("{}.absmax should have {} numbers", name_, state.num_scales()));
    }
    return scales;
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw_data_error(fmt::format("tensor {} of {} cannot be read in 4 bits", name_, tensors_.folder()), why,
                     "copy or download the folder again, or give the model before it was quantized");
  }

  [[nodiscard]] const FolderTensor& beside(const char* suffix) const {
    const FolderTensor* const found = tensors_.find(name_ + suffix);
    if (found == nullptr) refuse(fmt::format("it has no {}{}", name_, suffix));
    return *found;
  }

  /// Codes are bytes, whatever dtype these are stored as (bnb_4bit_quant_storage).
  void check_codes(const FourBitState& state) const {
    const FolderTensor& codes = tensors_.at(name_);
    const std::string& dtype = codes.stored.dtype;
    const std::uint64_t size = codes.num_stored_bytes(),
                        wanted = (static_cast<std::uint64_t>(state.num_elements()) + 1) / 2;
    const bool is_storage = dtype == "U8" || dtype == "BF16" || dtype == "F16" || dtype == "F32";
    if (is_storage && size == wanted) return;
    refuse(fmt::format("two of its numbers take a byte, {} in all, of U8, BF16, F16 or F32: it has {} of {}", wanted,
                       size, dtype));
  }

  [[nodiscard]] std::vector<float> floats_of(const char* suffix, std::int64_t count) const {
    const FolderTensor& part = beside(suffix);
    std::vector<float> values(static_cast<std::size_t>(count));
    if (part.stored.dtype != "F32" || part.num_stored_bytes() != values.size() * sizeof(float)) {
      refuse(fmt::format("{}{} should have {} numbers of F32", name_, suffix, count));
    }
    part.file->read(part.stored.begin, values.size() * sizeof(float), values.data());
    return values;
  }

  const FolderTensors& tensors_;
  std::string name_;
};

}  // namespace

FourBitMatrix CodedTensor::four_bits() const {
  SFT_ENSURE(false, "this matrix has codes of 4 bits");
  return {};
}

void join_four_bits(FolderTensors& tensors) {
  const std::vector<std::string>& suffixes = four_bit_suffixes();
  const std::array<std::string, 2> state_suffixes{suffixes[0], suffixes[1]};
  std::set<std::string> joined;
  for (const std::string& name : tensors.names()) {
    for (const std::string& suffix : state_suffixes) {
      const FolderTensor* const state = tensors.find(name + suffix);
      if (state == nullptr) continue;
      const Joiner joiner(tensors, name);
      FourBitState read = joiner.read_state(*state);
      const FolderTensor& scales = joiner.scales(read);
      std::vector<std::int64_t> shape = read.shape;
      tensors.set_codes(name, std::move(shape),
                        std::make_shared<FourBitTensor>(std::move(read), tensors.at(name), scales));
      for (const std::string& beside : suffixes) joined.insert(name + beside);
    }
  }
  tensors.remove(joined);
}

}  // namespace sft::hub
