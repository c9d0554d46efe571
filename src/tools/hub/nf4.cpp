// SPDX-License-Identifier: Apache-2.0
#include "nf4.hpp"

#include <fmt/core.h>
#include <algorithm>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "sft/core/block_codes.hpp"

namespace sft::hub {

namespace {

constexpr std::int64_t longest_side = std::int64_t{1} << 32, largest_block = std::int64_t{1} << 20;

std::int64_t block_of(const nlohmann::json& object, const char* name) {
  const auto size = object.at(name).get<std::int64_t>();
  if (size < 2 || size % 2 != 0 || size > largest_block) {
    throw std::invalid_argument(fmt::format("{} is {}", name, size));
  }
  return size;
}

}  // namespace

std::int64_t FourBitState::num_elements() const {
  std::int64_t number = 1;
  for (const std::int64_t size : shape) number *= size;
  return number;
}

const std::vector<std::string>& four_bit_suffixes() {
  static const std::vector<std::string> suffixes{".quant_state.bitsandbytes__nf4",
                                                 ".quant_state.bitsandbytes__fp4",
                                                 ".absmax",
                                                 ".quant_map",
                                                 ".nested_absmax",
                                                 ".nested_quant_map"};
  return suffixes;
}

FourBitState parse_four_bit_state(std::string_view json) {
  FourBitState state;
  try {
    const nlohmann::json object = nlohmann::json::parse(json);
    state.shape = object.at("shape").get<std::vector<std::int64_t>>();
    state.block = block_of(object, "blocksize");
    const auto dtype = object.at("dtype").get<std::string>();
    const bool is_known = dtype == "float32" || dtype == "bfloat16" || dtype == "float16";
    if (!is_known) throw std::invalid_argument(fmt::format("dtype is {}", dtype));
    state.type = parse_weight_type(dtype);
    if (object.contains("nested_blocksize")) {
      state.nested_block = block_of(object, "nested_blocksize");
      state.nested_offset = object.at("nested_offset").get<float>();
    }
  } catch (const std::invalid_argument&) {
    throw;
  } catch (const std::exception& error) {
    throw std::invalid_argument(error.what());
  }
  if (state.shape.size() != 2) throw std::invalid_argument(fmt::format("it has {} dims", state.shape.size()));
  for (const std::int64_t size : state.shape) {
    if (size < 1 || size > longest_side) throw std::invalid_argument(fmt::format("a dim is {}", size));
  }
  return state;
}

std::optional<FourBitForm> form_of(const FourBitState& state) {
  if (state.block != four_bit_block || state.shape[1] % four_bit_block != 0) return std::nullopt;
  FourBitForm form{.is_nested = state.is_nested()};
  form.type = state.table[0] == nf4_values[0] ? FourBitType::nf4 : FourBitType::fp4;
  if (!std::equal(state.table.begin(), state.table.end(), form.values())) return std::nullopt;
  if (!form.is_nested) return form;
  static const BlockCode code = make_block_code(/*is_signed=*/true);
  const bool is_usual = state.nested_block == nested_scale_block &&
                        std::equal(state.nested_table.begin(), state.nested_table.end(), code.values);
  return is_usual ? std::optional(form) : std::nullopt;
}

void read_four_bits(const FourBitState& state, std::int64_t first, std::int64_t count, const std::uint8_t* codes,
                    const float* scales, float* values) {
  const std::int64_t first_byte = first / 2, first_block = first / state.block;
  for (std::int64_t i = first; i < first + count; ++i) {
    const unsigned byte = codes[i / 2 - first_byte];
    const unsigned code = i % 2 == 0 ? byte >> 4U : byte & 0xfU;
    *values++ = state.table[code] * scales[i / state.block - first_block];
  }
}

}  // namespace sft::hub
