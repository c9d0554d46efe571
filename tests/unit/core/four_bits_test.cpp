// SPDX-License-Identifier: Apache-2.0
// Matrices in 4 bits: what bitsandbytes makes of the same numbers, by tests/unit/core/make_four_bits.py.
#include <boost/test/unit_test.hpp>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <span>
#include <sstream>
#include <string>
#include <vector>

#include "sft/core/block_codes.hpp"
#include "sft/core/four_bits.hpp"

using namespace sft;

namespace {

float value(std::int64_t i) {
  if (i >= 640 && i < 704) return 0.0F;
  const std::int64_t number = ((i * i * 7 + i * 31) % 2003 - 1001) * (1 + i / 64 % 37);
  return std::ldexp(static_cast<float>(number), -20);
}

std::vector<float> values(std::int64_t count) {
  std::vector<float> result;
  for (std::int64_t i = 0; i < count; ++i) result.push_back(value(i));
  return result;
}

template <class T>
std::uint64_t hash_of(std::span<const T> values) {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const std::byte byte : std::as_bytes(values)) {
    hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001b3U;
  }
  return hash;
}

/// What codes stand for, without nested scales.
std::vector<float> numbers_of(const FourBitMatrix& matrix) {
  std::vector<float> numbers;
  for (std::size_t i = 0; i < matrix.codes.size() * 2; ++i) {
    const unsigned byte = matrix.codes[i / 2];
    numbers.push_back(matrix.form.values()[i % 2 == 0 ? byte >> 4U : byte & 15U] * matrix.scales[i / 64]);
  }
  return numbers;
}

}  // namespace

BOOST_AUTO_TEST_SUITE(four_bits)

BOOST_AUTO_TEST_CASE(codes_and_scales_are_those_of_bitsandbytes_to_the_bit) {
  std::ifstream file(std::string(SFT_SOURCE_DIR) + "/tests/unit/core/four_bits.txt");
  int num_lines = 0;
  for (std::string line; std::getline(file, line); ++num_lines) {
    std::istringstream fields(line);
    std::string type, bar, number;
    std::int64_t count = 0;
    bool is_nested = false;
    std::uint64_t codes = 0, scales = 0;
    fields >> type >> is_nested >> count >> bar >> std::hex >> codes >> bar >> scales >> bar;
    FourBitQuantizer quantizer({.type = type == "nf4" ? FourBitType::nf4 : FourBitType::fp4, .is_nested = is_nested});
    const std::vector<float> all = values(count);
    const std::span<const float> numbers(all);
    quantizer.add(numbers.first(64 * 7));
    quantizer.add(numbers.subspan(64 * 7));
    const FourBitMatrix matrix = quantizer.finish();
    BOOST_TEST(hash_of<std::uint8_t>(matrix.codes) == codes, line);
    if (is_nested) {
      BOOST_TEST(matrix.scales.empty());
      BOOST_TEST(hash_of<std::uint8_t>(matrix.scale_codes) == scales, line);
      for (std::size_t i = 1; i < matrix.nested.size(); ++i) {
        fields >> number;
        BOOST_TEST(matrix.nested[i] == std::stof(number), line);
      }
      fields >> number;
      BOOST_TEST(std::abs(matrix.nested[0] - std::stof(number)) <= 1e-7F * matrix.nested[0], line);
    } else {
      BOOST_TEST(hash_of<float>(matrix.scales) == scales, line);
    }
  }
  BOOST_TEST(num_lines == 4);
}

/// Of fp4 two codes stand for zero.
BOOST_AUTO_TEST_CASE(numbers_of_codes_stand_for_themselves) {
  for (const FourBitType type : {FourBitType::nf4, FourBitType::fp4}) {
    FourBitQuantizer quantizer({.type = type});
    quantizer.add(values(64 * 40));
    const FourBitMatrix first = quantizer.finish();
    const std::vector<float> numbers = numbers_of(first);
    quantizer.add(numbers);
    const FourBitMatrix second = quantizer.finish();
    BOOST_TEST((type == FourBitType::fp4 || second.codes == first.codes));
    BOOST_TEST(numbers_of(second) == numbers);
    BOOST_TEST(second.scales == first.scales);
  }
}

BOOST_AUTO_TEST_CASE(a_record_is_the_codes_of_a_block_and_its_scale) {
  for (const bool is_nested : {false, true}) {
    const FourBitForm form{.is_nested = is_nested};
    FourBitQuantizer quantizer(form);
    quantizer.add(values(64 * 5));
    const FourBitMatrix matrix = quantizer.finish();
    std::vector<std::uint8_t> record(form.record_bytes());
    matrix.write_record(3, record.data());
    BOOST_TEST(std::memcmp(record.data(), matrix.codes.data() + 96, 32) == 0);
    if (is_nested) {
      BOOST_TEST(record.back() == matrix.scale_codes[3]);
    } else {
      BOOST_TEST(std::memcmp(record.data() + 32, &matrix.scales[3], 4) == 0);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
