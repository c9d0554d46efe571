// SPDX-License-Identifier: Apache-2.0
// Numbers of matrices in 4 bits: to the bit those of the CPU.
#include <boost/test/unit_test.hpp>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "emulation/ops/support.hpp"

namespace sft::ops::testing {

BOOST_AUTO_TEST_SUITE(four_bits)

BOOST_AUTO_TEST_CASE(read_four_bits) {
  const std::vector<std::pair<std::int64_t, std::int64_t>> shapes = with_large<std::pair<std::int64_t, std::int64_t>>(
      {{0, 64}, {1, 64}, {70, 128}, {33, 320}, {200, 128}}, {{4096, 4096}});
  for (const DType dtype : compute_dtypes) {
    for (const FourBitType type : {FourBitType::nf4, FourBitType::fp4}) {
      for (const bool is_nested : {false, true}) {
        const FourBitForm form{.type = type, .is_nested = is_nested};
        for (const auto& [rows, columns] : shapes) {
          const std::int64_t row_blocks = columns / four_bit_block + 1;  // the whole matrix has a column of blocks more
          Twin out_(dtype, {rows, columns}),
              records = Twin(DType::uint8, {rows * columns / four_bit_block * form.record_bytes()}).uniform(1, 0, 255),
              nested =
                  Twin(DType::float32, {form.is_nested ? form.num_nested((rows + 1) * row_blocks * four_bit_block) : 0})
                      .normal(2);
          const std::int64_t num_rows = rows, num_columns = columns;
          check(std::string("read_four_bits ") + text_of(dtype) + " " + std::to_string(num_rows) + " x " +
                    std::to_string(num_columns),
                {in(records), in(nested), out(out_, {})}, [&](Backend& ops, auto of) {
                  ops.run(ReadFourBits{.out = of(out_),
                                       .records = of(records),
                                       .form = form,
                                       .nested = form.is_nested ? of(nested) : Tensor(),
                                       .first_block = 1,
                                       .row_blocks = row_blocks});
                });
        }
      }
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()

}  // namespace sft::ops::testing
