// SPDX-License-Identifier: Apache-2.0
#include <cstring>
#include <random>

#include "sft/core/block_codes.hpp"
#include "unit/ops/support.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(four_bits)

/// A rectangle of a matrix, as a rank of tp has it.
BOOST_AUTO_TEST_CASE(numbers_are_those_of_the_codes_to_the_bit) {
  constexpr std::int64_t rows = 300, columns = 192, first_row = 40, first_column = 64, num_rows = 130,
                         num_columns = 128;
  std::mt19937 random(3);
  std::vector<float> values(rows * columns);
  for (float& value : values) value = std::normal_distribution<float>(0.0F, 0.02F)(random);
  const BlockCode code = make_block_code(true);
  for (const FourBitType type : {FourBitType::nf4, FourBitType::fp4}) {
    for (const bool is_nested : {false, true}) {
      const FourBitForm form{.type = type, .is_nested = is_nested};
      FourBitQuantizer quantizer(form);
      quantizer.add(values);
      FourBitMatrix matrix = quantizer.finish();
      BOOST_TEST(std::ssize(matrix.nested) == form.num_nested(rows * columns));
      std::vector<std::uint8_t> records;
      std::vector<float> expected;
      for (std::int64_t r = first_row; r < first_row + num_rows; ++r) {
        for (std::int64_t c = first_column; c < first_column + num_columns; ++c) {
          const std::int64_t element = r * columns + c, block = element / four_bit_block;
          if (element % four_bit_block == 0) {
            records.resize(records.size() + static_cast<std::size_t>(form.record_bytes()));
            matrix.write_record(block, &*records.end() - form.record_bytes());
          }
          float scale = 0.0F;
          if (is_nested) {
            const volatile float product =
                code.values[matrix.scale_codes[block]] * matrix.nested[1 + block / nested_scale_block];
            scale = product + matrix.nested[0];
          } else {
            scale = matrix.scales[block];
          }
          const unsigned byte = matrix.codes[element / 2];
          expected.push_back(form.values()[element % 2 == 0 ? byte >> 4U : byte & 15U] * scale);
        }
      }
      on_every_backend_and_dtype([&](TestBackend& backend, DType dtype, const std::string& label) {
        const Owned out(dtype, {num_rows, num_columns});
        const Tensor stored(records.data(), DType::uint8, {std::ssize(records)});
        const Tensor nested =
            is_nested ? Tensor(matrix.nested.data(), DType::float32, {std::ssize(matrix.nested)}) : Tensor();
        backend->run(ReadFourBits{.out = *out,
                                  .records = stored,
                                  .form = form,
                                  .nested = nested,
                                  .first_block = first_row * columns / four_bit_block + first_column / four_bit_block,
                                  .row_blocks = columns / four_bit_block});
        std::int64_t num_wrong = 0;
        for (std::int64_t i = 0; i < num_rows * num_columns; ++i) {
          const float value = expected[i];
          const double wanted = dtype == DType::bf16 ? float32_of_bf16(bf16_of_float32(value)) : value;
          if (get(*out, i / num_columns, i % num_columns) != wanted) ++num_wrong;
        }
        BOOST_TEST(num_wrong == 0, label);
      });
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
