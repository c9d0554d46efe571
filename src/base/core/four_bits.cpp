// SPDX-License-Identifier: Apache-2.0
#include "sft/core/four_bits.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <utility>

#include "sft/core/block_codes.hpp"
#include "sft/core/ensure.hpp"

namespace sft {

namespace {

constexpr float smallest_scale = 1e-38F;  // for blocks of zeros

/// Codes by their numbers: `order` in ascending order, `borders` half way between neighbours. A number on a border has
/// the lower code.
struct CodeSearch {
  std::array<std::uint8_t, 16> order;
  std::array<float, 15> borders;

  explicit CodeSearch(const float* values) : order{}, borders{} {
    std::iota(order.begin(), order.end(), std::uint8_t{0});
    std::ranges::stable_sort(order, [&](int a, int b) { return values[a] < values[b]; });
    for (std::size_t i = 0; i < borders.size(); ++i) borders[i] = (values[order[i]] + values[order[i + 1]]) / 2.0F;
  }

  [[nodiscard]] std::uint8_t code_of(float x) const {
    unsigned place = x > borders[7] ? 8 : 0;
    place += x > borders[place + 3] ? 4 : 0;
    place += x > borders[place + 1] ? 2 : 0;
    place += x > borders[place] ? 1 : 0;
    return order[place];
  }
};

float largest_magnitude(std::span<const float> values) {
  float largest = 0.0F;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  return largest;
}

}  // namespace

void FourBitMatrix::write_record(std::int64_t block, std::uint8_t* record) const {
  std::memcpy(record, codes.data() + block * four_bit_code_bytes, four_bit_code_bytes);
  if (form.is_nested) {
    record[four_bit_code_bytes] = scale_codes[static_cast<std::size_t>(block)];
  } else {
    std::memcpy(record + four_bit_code_bytes, &scales[static_cast<std::size_t>(block)], sizeof(float));
  }
}

void FourBitQuantizer::add(std::span<const float> values) {
  SFT_ENSURE(std::ssize(values) % four_bit_block == 0, "matrices in 4 bits consist of whole blocks");
  static const std::array searches{CodeSearch(nf4_values), CodeSearch(fp4_values)};
  const CodeSearch& search = searches[matrix_.form.type == FourBitType::nf4 ? 0 : 1];
  for (; !values.empty(); values = values.subspan(four_bit_block)) {
    const std::span block = values.first(four_bit_block);
    const float scale = largest_magnitude(block), inverse = 1.0F / std::max(scale, smallest_scale);
    const auto code_of = [&](float x) { return search.code_of(std::clamp(x * inverse, -1.0F, 1.0F)); };
    for (std::size_t i = 0; i < block.size(); i += 2) {
      const unsigned first = code_of(block[i]), second = code_of(block[i + 1]);
      matrix_.codes.push_back(static_cast<std::uint8_t>(first << 4U | second));
    }
    matrix_.scales.push_back(scale);
  }
}

FourBitMatrix FourBitQuantizer::finish() {
  FourBitMatrix matrix;
  std::swap(matrix, matrix_);
  matrix_.form = matrix.form;
  if (!matrix.form.is_nested) return matrix;
  static const BlockCode code = make_block_code(/*is_signed=*/true);
  std::vector<float>& scales = matrix.scales;
  const double sum = std::accumulate(scales.begin(), scales.end(), 0.0);
  const auto offset = static_cast<float>(sum / static_cast<double>(std::max<std::size_t>(scales.size(), 1)));
  matrix.nested.push_back(offset);
  for (float& scale : scales) scale -= offset;
  for (std::span<const float> rest = scales; !rest.empty();) {
    const std::span block = rest.first(std::min<std::size_t>(rest.size(), nested_scale_block));
    const float largest = largest_magnitude(block), divisor = std::max(largest, smallest_scale);
    for (const float scale : block) {
      matrix.scale_codes.push_back(static_cast<std::uint8_t>(nearest_code(code.borders, scale / divisor)));
    }
    matrix.nested.push_back(largest);
    rest = rest.subspan(block.size());
  }
  scales.clear();
  return matrix;
}

}  // namespace sft
